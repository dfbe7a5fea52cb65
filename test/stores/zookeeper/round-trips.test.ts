// Goal: a grant, a release and a renewal take one round trip each, a release does not wake all
// waiters, and connections are made by the user's `connect` function. Method: streams that count
// what is written to them, passed in through `connect`, on a real server.
import { connect as dial, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { LeaseRef, Store } from "../../../src/stores/contract.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { until } from "../../servers/ask.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";
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
async function counted(root: string): Promise<{ store: Store; counts: Counts }> {
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
  const store = await zookeeperStore({ url: `zookeeper://${hosts}`, prefix: root, connect })(
    systemParts(),
  );
  onTestFinished(() => store.close());
  return { store, counts };
}

function newRoot(): string {
  roots += 1;
  return `/trips${roots}`;
}

async function open(store: Store, sessionId: string): Promise<void> {
  await store.openSession({ sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: LIMIT_MS });
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
  expect(renewal).toEqual([single, { kind: "renewed", ttlMs: 60_000, gone: [] }]);
});

test("a renewal that acknowledges revocations is one flight of two messages, the next renewal a single message", async () => {
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
  expect(await renew([ref])).toEqual([{ flights: 1, messages: 2 }, []]);
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

test("of 20 waiters, a release concerns only the first two, and the others send nothing", async () => {
  const root = newRoot();
  const { store: holder } = await counted(root);
  await open(holder, "holder");
  const held = await ask(holder, "holder", "r");
  if (held.kind !== "granted") throw new Error(held.kind);
  const waiters = [];
  for (let index = 0; index < 20; index += 1) {
    const { store, counts } = await counted(root);
    const sessionId = `w${index}`;
    await open(store, sessionId);
    expect((await ask(store, sessionId, "r", true)).kind).toBe("busy");
    waiters.push({ store, sessionId, counts, state: { isWoken: false } });
  }
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const startedAt = performance.now();
  for (const { store, sessionId, state } of waiters) {
    const attempt = { sessionId, resource: "r", attempt: `${sessionId}.r`, limitMs: LIMIT_MS };
    waitUntilFree(store, { ...attempt, signal: stop.signal }).then(
      () => {
        state.isWoken = true;
      },
      () => undefined,
    );
  }
  // By now each has made its first check and waits.
  await sleep(500);
  const before = waiters.map(({ counts }) => counts.messages);
  await holder.release({
    sessionId: "holder",
    resource: "r",
    token: held.token,
    limitMs: LIMIT_MS,
  });
  const first = waiters[0];
  if (first === undefined) throw new Error("there are waiters");
  await until("the first is woken", async () => first.state.isWoken, 5_000);
  expect((await ask(first.store, first.sessionId, "r", true)).kind).toBe("granted");
  await sleep(300);
  const woken = waiters.map(({ counts }, index) => counts.messages - (before[index] ?? 0));
  // Each waiter also checks every 5 s, with three messages; the test must not fail on a machine
  // that is slow enough for that.
  const checks = Math.floor((performance.now() - startedAt) / 5_000);
  // The second watches the first, in case it does not take its turn.
  expect(woken.slice(2).filter((messages) => messages > 3 * checks)).toEqual([]);
  expect(waiters.map(({ state }) => state.isWoken).filter(Boolean)).toHaveLength(1);
});
