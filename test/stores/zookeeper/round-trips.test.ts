// Goal: a grant, a release and a renewal take one round trip each, a release does not wake all
// waiters, and connections are made by the user's `connect` function. Method: streams that count
// what is written to them, passed in through `connect`, on a real server.
import { connect as dial, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, LeaseRef, Store, StoreParts } from "../../../src/stores/contract.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";
import { slowParts } from "../../support/stores/slow-timers.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";

const zookeeper = useServer(startZooKeeper);
const LIMIT_MS = 5_000;
let roots = 0;

/** `flights` counts the writes to a connection, `messages` the messages in them. */
interface Counts {
  flights: number;
  messages: number;
}

/** A store whose connections are counted, and the counts. */
async function counted(
  root: string,
  parts: StoreParts = systemParts(),
): Promise<{ store: Store; counts: Counts }> {
  const counts = { flights: 0, messages: 0 };
  const connect = (host: string, port: number): Socket => {
    const socket = dial({ host, port, noDelay: true });
    const write = socket.write.bind(socket);
    socket.write = ((chunk: Buffer) => {
      counts.flights += 1;
      for (let at = 0; at < chunk.length; at += 4 + chunk.readInt32BE(at)) counts.messages += 1;
      return write(chunk);
    }) as typeof socket.write;
    return socket;
  };
  const hosts = `${zookeeper().host}:${zookeeper().port}`;
  const options = { url: `zookeeper://${hosts}`, prefix: root, connect };
  const store = await zookeeperStore(options)(parts);
  onTestFinished(() => store.close());
  return { store, counts };
}

function newRoot(): string {
  roots += 1;
  return `/trips${roots}`;
}

const reports = new Map<string, RecordedEvents>();

async function open(store: Store, sessionId: string): Promise<void> {
  const events = new RecordedEvents();
  reports.set(sessionId, events);
  const session = { sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: LIMIT_MS };
  await store.openSession({ ...session, events });
}

/** Waits until the store has reported the grant of "r" to the session. */
async function reportedToken(sessionId: string): Promise<bigint> {
  return (await reports.get(sessionId)?.tokenOf(`${sessionId}.r`)) ?? 0n;
}

async function freeLease(
  store: Store,
  sessionId: string,
  resource: string,
  held: GrantOutcome,
): Promise<void> {
  if (held.kind !== "granted") throw new Error(held.kind);
  const { token } = held;
  const outcome = await store.release({ sessionId, resource, token, limitMs: LIMIT_MS });
  expect(outcome).toEqual({ kind: "released" });
}

function ask(
  store: Store,
  sessionId: string,
  resource: string,
  queue = false,
  attempt = `${sessionId}.${resource}`,
): ReturnType<Store["grant"]> {
  const limitMs = LIMIT_MS;
  return store.grant({ sessionId, resource, attempt, holderId: sessionId, queue, limitMs });
}

test("a grant, a release and the renewal of a hundred leases take one flight of one message each", async () => {
  const { store, counts } = await counted(newRoot());
  await open(store, "one");
  const session = { sessionId: "one", limitMs: LIMIT_MS };
  await ask(store, "one", "warm");
  const trips = async <T>(request: () => Promise<T>): Promise<[Counts, T]> => {
    const before = { ...counts };
    const answer = await request();
    const { flights, messages } = counts;
    return [{ flights: flights - before.flights, messages: messages - before.messages }, answer];
  };
  const single = { flights: 1, messages: 1 };
  for (let lease = 0; lease < 100; lease += 1) {
    const [first, granted] = await trips(() => ask(store, "one", `r${lease}`));
    // The first grant of a resource also creates its parent node, in the same flight.
    expect([first, granted.kind]).toEqual([{ flights: 1, messages: 2 }, "granted"]);
    if (granted.kind !== "granted") continue;
    const ref = { ...session, resource: `r${lease}`, token: granted.token };
    expect(await trips(() => store.release(ref))).toEqual([single, { kind: "released" }]);
    const [again, second] = await trips(() => ask(store, "one", `r${lease}`, false, `b${lease}`));
    expect([again, second.kind]).toEqual([single, "granted"]);
  }
  const renewal = await trips(() => store.renew({ ...session, withdrawn: [], acknowledged: [] }));
  const nothing = { gone: [], granted: [], wanted: [], waiting: 0 };
  expect(renewal).toEqual([single, { kind: "renewed", ttlMs: 60_000, ...nothing }]);
});

test("a renewal that acknowledges revocations also deletes and reads the notices, and the next one is a single message", async () => {
  const { store, counts } = await counted(newRoot());
  await open(store, "one");
  const granted = await ask(store, "one", "r");
  const ref = { resource: "r", token: granted.kind === "granted" ? granted.token : 0n };
  await store.revoke({ ...ref, limitMs: LIMIT_MS });
  const renew = async (acknowledged: readonly LeaseRef[]): Promise<[Counts, unknown]> => {
    const before = { ...counts };
    const session = { sessionId: "one", limitMs: LIMIT_MS };
    const answer = await store.renew({ ...session, withdrawn: [], acknowledged });
    const { flights, messages } = counts;
    const trips = { flights: flights - before.flights, messages: messages - before.messages };
    return [trips, answer.kind === "renewed" ? answer.gone : answer];
  };
  expect((await renew([]))[1]).toEqual([ref]);
  expect(await renew([ref])).toEqual([{ flights: 2, messages: 3 }, []]);
  expect(await renew([ref])).toEqual([{ flights: 1, messages: 1 }, []]);
});

test("a hundred concurrent grants share their flights", async () => {
  const { store, counts } = await counted(newRoot());
  await open(store, "one");
  const before = counts.flights;
  const names = Array.from({ length: 100 }, (_, index) => `r${index}`);
  const granted = await Promise.all(names.map((name) => ask(store, "one", name)));
  expect(granted.every(({ kind }) => kind === "granted")).toBe(true);
  expect(counts.flights - before).toBeLessThan(10);
});

test("forty concurrent grants take four messages, and so do their releases", async () => {
  const { store, counts } = await counted(newRoot());
  await open(store, "one");
  const names = Array.from({ length: 40 }, (_, index) => `r${index}`);
  // The first round creates the parent nodes, with one message each.
  for (let round = 0; round < 2; round += 1) {
    const before = counts.messages;
    const granted = await Promise.all(
      names.map((name) => ask(store, "one", name, false, `one.${name}.${round}`)),
    );
    expect(counts.messages - before).toBe(round === 0 ? 44 : 4);
    const freed = granted.map((outcome, index) => {
      if (outcome.kind !== "granted") throw new Error(outcome.kind);
      const { token } = outcome;
      return store.release({
        sessionId: "one",
        resource: names[index] ?? "",
        token,
        limitMs: LIMIT_MS,
      });
    });
    await Promise.all(freed);
    expect(counts.messages - before).toBe(round === 0 ? 48 : 8);
  }
});

test("a grant that is answered with busy names the holder and leaves nothing on the server", async () => {
  const root = newRoot();
  const { store } = await counted(root);
  for (const id of ["one", "two"]) await open(store, id);
  await ask(store, "one", "r");
  expect(await ask(store, "two", "r")).toEqual({ kind: "busy", holderId: "one" });
  await using console = await Console.open(zookeeper());
  expect(await console.children(`${root}/leases/r`)).toHaveLength(1);
});

/** Counts the messages of one store during `work`. */
async function messagesOf(counts: Counts, work: () => Promise<unknown>): Promise<number> {
  const before = counts.messages;
  await work();
  return counts.messages - before;
}

test("a contended lock takes four messages after the holder, and five further back", async () => {
  const root = newRoot();
  const { store: holder } = await counted(root, slowParts());
  await open(holder, "holder");
  const held = await ask(holder, "holder", "r");
  const waiters = [];
  for (const sessionId of ["second", "third"]) {
    const { store, counts } = await counted(root, slowParts());
    await open(store, sessionId);
    // Creates the parent of the resource in the cache of the store.
    const warm = await ask(store, sessionId, "warm");
    await freeLease(store, sessionId, "warm", warm);
    waiters.push({ store, counts, sessionId });
  }
  const [second, third] = waiters as [(typeof waiters)[0], (typeof waiters)[0]];
  // The creation of the parent, which exists already, is one more message in the first flight.
  const queued = async ({ store, counts, sessionId }: typeof second): Promise<number> =>
    messagesOf(counts, async () =>
      expect((await ask(store, sessionId, "r", true)).kind).toBe("queued"),
    );
  expect([await queued(second), await queued(third)]).toEqual([4, 4]);
  let former = { store: holder, sessionId: "holder", outcome: held };
  const costs: number[] = [];
  for (const { store, counts, sessionId } of waiters) {
    const cost = await messagesOf(counts, async () => {
      await freeLease(former.store, former.sessionId, "r", former.outcome);
      const token = await reportedToken(sessionId);
      former = { store, sessionId, outcome: { kind: "granted", token } };
    });
    costs.push(cost);
  }
  // The second waiter learns of its grant without a request; the third one lists the queue.
  expect(costs).toEqual([0, 1]);
  const released = await messagesOf(third.counts, () =>
    freeLease(former.store, former.sessionId, "r", former.outcome),
  );
  expect(released).toBe(1);
});

test("of 20 waiters, a release concerns only the first one", async () => {
  const root = newRoot();
  const { store: holder } = await counted(root);
  await open(holder, "holder");
  const held = await ask(holder, "holder", "r");
  const waiters = [];
  for (let index = 0; index < 20; index += 1) {
    const { store, counts } = await counted(root);
    const sessionId = `w${index}`;
    await open(store, sessionId);
    expect((await ask(store, sessionId, "r", true)).kind).toBe("queued");
    waiters.push(counts);
  }
  // The first waiter has notified the holder by then.
  await sleep(300);
  const before = waiters.map(({ messages }) => messages);
  await freeLease(holder, "holder", "r", held);
  await reportedToken("w0");
  await sleep(300);
  const sent = waiters.map(({ messages }, index) => messages - (before[index] ?? 0));
  // The first one records in its node since when it holds the resource. The second one is notified
  // of that write, reads the queue again, and notifies the new holder.
  const [first = 0, second = 0, ...others] = sent;
  expect([first <= 3, second <= 5]).toEqual([true, true]);
  expect(others.filter((messages) => messages > 0)).toEqual([]);
});

test("a release and the next request travel together, without waiting for an answer", async () => {
  const { store, counts } = await counted(newRoot());
  await open(store, "one");
  await freeLease(store, "one", "r", await ask(store, "one", "r"));
  const held = await ask(store, "one", "r", false, "one.2");
  const before = counts.messages;
  const released = freeLease(store, "one", "r", held);
  const next = ask(store, "one", "r", true, "one.3");
  await new Promise((resolve) => setImmediate(resolve));
  expect(counts.messages - before).toBe(2);
  expect((await next).kind).toBe("granted");
  await released;
});
