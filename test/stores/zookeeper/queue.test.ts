// Goal: exactly one of the queued sessions holds the resource, whatever they do concurrently and
// whichever reply or notification is lost, and every revocation is reported to its holder. Method:
// a real server, and connections that drop replies on demand.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { remove, setData } from "../../../src/clients/zookeeper/messages.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { until } from "../../servers/ask.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import type { RecordedEvents } from "../../support/stores/session-events.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";
import {
  ask,
  LIMIT_MS,
  openSessions,
  openStore,
  openStorePair,
  readOpcode,
  release,
  renew,
  TICK_MS,
  take,
} from "../../support/stores/zookeeper-queue.ts";

const zookeeper = useServer(startZooKeeper);
const GET_CHILDREN2 = 12;
const MULTI = 14;
const CREATE_CONTAINER = 19;
let roots = 0;

function newRoot(): string {
  roots += 1;
  return `/queue${roots}`;
}

async function readHolder(store: Store): Promise<unknown> {
  const request = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  return (await store.read(request)).holder;
}

test("S4: a waiter holds the resource from the deletion of the node before it on, and not earlier", async () => {
  const store = await openStore(zookeeper(), newRoot());
  const [, two, three] = (await openSessions(store, "one", "two", "three")) as RecordedEvents[];
  const first = await take(store, "one");
  expect(await ask(store, "two")).toEqual({ kind: "queued", holderId: "one" });
  expect((await ask(store, "three")).kind).toBe("queued");
  expect(await readHolder(store)).toMatchObject({ holderId: "one", token: first });
  await release(store, "one", first);
  expect(await readHolder(store)).toMatchObject({ holderId: "two" });
  const second = await two?.tokenOf("two.1");
  expect(second).toBeGreaterThan(first);
  expect(three?.grants).toEqual([]);
  await release(store, "two", second ?? 0n);
  expect(await three?.tokenOf("three.1")).toBeGreaterThan(second ?? 0n);
});

test("S4: a waiter is not granted the resource when another waiter before it gives up", async () => {
  const store = await openStore(zookeeper(), newRoot());
  const [, , three] = (await openSessions(store, "one", "two", "three")) as RecordedEvents[];
  const first = await take(store, "one");
  await ask(store, "two");
  await ask(store, "three");
  await store.withdraw({ sessionId: "two", resource: "r", attempt: "two.1", limitMs: LIMIT_MS });
  // The answer comes after the event on the same connection, so the store has processed it.
  await renew(store, "three");
  expect(three?.grants).toEqual([]);
  await release(store, "one", first);
  expect(await three?.tokenOf("three.1")).toBeGreaterThan(first);
});

test("L2: a grant whose notification was lost is reported after the connection is replaced", async () => {
  const { link, store, other } = await openStorePair(zookeeper(), newRoot());
  const [two] = await openSessions(store, "two");
  await openSessions(other, "one");
  const first = await take(other, "one");
  await ask(store, "two");
  // From the next request on, nothing arrives any more.
  link.dropRepliesFrom = () => true;
  const renewal = { sessionId: "two", withdrawn: [], acknowledged: [], limitMs: 200 };
  const lost = store.renew(renewal).catch((error: unknown) => error);
  await release(other, "one", first);
  expect(await lost).toMatchObject({ applied: "unknown" });
  link.dropRepliesFrom = () => false;
  const token = await two?.tokenOf("two.1");
  expect(await renew(store, "two")).toMatchObject({
    kind: "renewed",
    granted: [{ resource: "r", attempt: "two.1", token }],
    waiting: 0,
  });
});

test("a waiter keeps its node, and watches again, when three connections in a row break", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  const [two] = await openSessions(store, "two");
  await openSessions(other, "one");
  const first = await take(other, "one");
  await ask(store, "two");
  let broken = 0;
  let creations = 0;
  link.delay = (chunk) => {
    if (readOpcode(chunk) === MULTI) creations += 1;
    broken += 1;
    return broken <= 3 ? Promise.reject(new Error("broken")) : undefined;
  };
  for (let tries = 0; tries < 4; tries += 1) await renew(store, "two").catch(() => undefined);
  await until("it has connected again", async () => broken > 3, LIMIT_MS);
  await release(other, "one", first);
  expect(await two?.tokenOf("two.1")).toBeGreaterThan(first);
  expect(creations).toBe(0);
});

test("S1: a waiter whose creation was not answered finds its node again, and holds with its czxid", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  await openSessions(store, "one");
  await openSessions(other, "two");
  const first = await take(other, "two");
  // The first request for a resource begins with the creation of its parent.
  link.dropRepliesFrom = (chunk) => [MULTI, CREATE_CONTAINER].includes(readOpcode(chunk));
  await expect(ask(store, "one", { limitMs: 400 })).rejects.toMatchObject({ applied: "unknown" });
  link.dropRepliesFrom = () => false;
  await release(other, "two", first);
  const token = await take(store, "one");
  expect(await readHolder(other)).toMatchObject({ holderId: "one", token });
  await using console = await Console.open(zookeeper());
  expect(await console.children(`${root}/leases/r`)).toHaveLength(1);
});

test("a request that finds the resource free while it lists the queue is granted it", async () => {
  const { link, store, other } = await openStorePair(zookeeper(), newRoot());
  await openSessions(store, "two");
  await openSessions(other, "one");
  const first = await take(other, "one");
  let letGo = (): void => undefined;
  const isListing = new Promise<void>((begun) => {
    link.delay = (chunk) => {
      if (readOpcode(chunk) !== GET_CHILDREN2) return undefined;
      begun();
      return new Promise<void>((resolve) => {
        letGo = resolve;
      });
    };
  });
  const asking = ask(store, "two");
  await isListing;
  await release(other, "one", first);
  link.delay = () => undefined;
  letGo();
  expect((await asking).kind).toBe("granted");
});

test("the holder is notified only of waiters that wait for a while, and each renewal reports those", async () => {
  const store = await openStore(zookeeper(), newRoot());
  const [one] = (await openSessions(store, "one", "two")) as RecordedEvents[];
  const token = await take(store, "one");
  const ref = { resource: "r", token };
  await ask(store, "two");
  await store.withdraw({ sessionId: "two", resource: "r", attempt: "two.1", limitMs: LIMIT_MS });
  await sleep(150);
  expect(one?.wishes).toEqual([]);
  await ask(store, "two", { attempt: "two.2" });
  await until("the holder is notified", async () => one?.wishes.length === 1, LIMIT_MS);
  expect(one?.wishes).toEqual([ref]);
  expect(await renew(store, "one")).toMatchObject({ wanted: [ref] });
  await store.withdraw({ sessionId: "two", resource: "r", attempt: "two.2", limitMs: LIMIT_MS });
  expect(await renew(store, "one")).toMatchObject({ wanted: [] });
});

test("a waiter whose node was deleted by hand is not counted any more, and queues again when it asks", async () => {
  const root = newRoot();
  const store = await openStore(zookeeper(), root);
  const [, , three] = (await openSessions(store, "one", "two", "three")) as RecordedEvents[];
  const first = await take(store, "one");
  await ask(store, "two");
  await ask(store, "three");
  await using console = await Console.open(zookeeper());
  const parent = `${root}/leases/r`;
  const names = (await console.children(parent)).sort(bySequence);
  await console.send(remove(`${parent}/${names[2]}`));
  // The deletion of the node before its own makes the waiter list the queue.
  await console.send(remove(`${parent}/${names[1]}`));
  const isGone = async (): Promise<boolean> => {
    const renewed = await renew(store, "three");
    return renewed.kind === "renewed" && renewed.waiting === 0;
  };
  await until("it is not counted", isGone, LIMIT_MS);
  expect(await ask(store, "three")).toEqual({ kind: "queued", holderId: "one" });
  await release(store, "one", first);
  expect(await three?.tokenOf("three.1")).toBeGreaterThan(first);
});

test("S8: malformed notices are ignored, and a revocation after them reaches the holder at once", async () => {
  const root = newRoot();
  const store = await openStore(zookeeper(), root);
  const [one] = (await openSessions(store, "one")) as RecordedEvents[];
  const token = await take(store, "one");
  await using console = await Console.open(zookeeper());
  const names = await console.children(`${root}/sessions`);
  const node = `${root}/sessions/${names.find((name) => name.endsWith("-notices"))}`;
  const foreign = ['["lost","s","r","x"]', "{", '["wanted","s","never held","7"]', "\u0000"];
  await console.send(setData(node, foreign.join("\n"), -1));
  expect(await renew(store, "one")).toMatchObject({ kind: "renewed", gone: [], wanted: [] });
  expect(await store.revoke({ resource: "r", token, limitMs: LIMIT_MS })).toEqual({
    kind: "revoked",
  });
  await until("the holder is notified", async () => one?.losses.length === 1, LIMIT_MS);
  expect([one?.losses, one?.wishes]).toEqual([[{ resource: "r", token }], []]);
});

/** By position in the queue. */
function bySequence(one: string, other: string): number {
  return Number(one.slice(-10)) - Number(other.slice(-10));
}

test("S5: concurrent revocations during renewals are all reported", async () => {
  const root = newRoot();
  const [store, ...revokers] = [
    await openStore(zookeeper(), root),
    await openStore(zookeeper(), root),
    await openStore(zookeeper(), root),
  ];
  await openSessions(store, "one");
  const names = Array.from({ length: 20 }, (_, index) => `r${index}`);
  const leases = await Promise.all(
    names.map(async (resource) => {
      const token = await take(store, "one", { resource, attempt: `one.${resource}` });
      return { resource, token };
    }),
  );
  const renew = (): ReturnType<Store["renew"]> =>
    store.renew({ sessionId: "one", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
  const revoked = Promise.all(
    leases.map((lease, index) => revokers[index % 2]?.revoke({ ...lease, limitMs: 20_000 })),
  );
  let isDone = false;
  const renewing = (async () => {
    while (!isDone) expect((await renew()).kind).toBe("renewed");
  })();
  const outcomes = await revoked.finally(() => {
    isDone = true;
  });
  await renewing;
  expect(new Set(outcomes.map((outcome) => outcome?.kind))).toEqual(new Set(["revoked"]));
  const last = await renew();
  const gone = last.kind === "renewed" ? last.gone : [];
  const sorted = (refs: readonly { resource: string }[]): string[] =>
    refs.map(({ resource }) => resource).sort();
  expect(sorted(gone)).toEqual(sorted(leases));
});

describe("a server with a short maximum session timeout", () => {
  const short = useServer(startZooKeeper, { tickTimeMs: TICK_MS, maxSessionTimeoutMs: 3_000 });

  test("a ttl that is too long is shortened, and a store that was idle for longer than that works again", async () => {
    const hosts = `${short().host}:${short().port}`;
    const store = await zookeeperStore({ url: `zookeeper://${hosts}`, tickMs: TICK_MS })(
      systemParts(),
    );
    onTestFinished(() => store.close());
    const read = (): ReturnType<Store["read"]> =>
      store.read({ resource: "r", consistency: "linearizable", limitMs: LIMIT_MS });
    expect((await read()).holder).toBeUndefined();
    // The session that the store reads with has expired by now.
    await sleep(4_500);
    const session = { sessionId: "one", holderId: "one", limitMs: LIMIT_MS };
    expect(await store.openSession({ ...session, ttlMs: 60_000 })).toEqual({ ttlMs: 3_000 });
    const token = await take(store, "one");
    expect((await read()).holder?.token).toBe(token);
  });
});
