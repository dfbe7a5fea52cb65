// Goal: exactly one of the queued sessions holds the resource, whatever they do concurrently and
// whichever reply is lost, and every revocation is reported to its holder. Method: a real server,
// and connections that drop replies on demand.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import { HEAD_START_MS, type Store } from "../../../src/stores/contract.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { until } from "../../servers/ask.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";
import {
  ask,
  LIMIT_MS,
  openSessions,
  openStore,
  openStorePair,
  readOpcode,
  release,
  TICK_MS,
  take,
  untilFree,
} from "../../support/stores/zookeeper-queue.ts";

const zookeeper = useServer(startZooKeeper);
let roots = 0;

function newRoot(): string {
  roots += 1;
  return `/queue${roots}`;
}

test("S4: a waiter that was skipped and wakes up late holds nothing, and queues again", async () => {
  const store = await openStore(zookeeper(), newRoot());
  await openSessions(store, "one", "stuck", "next");
  const first = await take(store, "one");
  await ask(store, "stuck");
  await ask(store, "next");
  const wait = untilFree(store, "next");
  await release(store, "one", first);
  await wait;
  const token = await take(store, "next");
  expect(await ask(store, "stuck")).toEqual({ kind: "busy", holderId: "next" });
  await release(store, "next", token);
  await untilFree(store, "stuck");
  expect(await take(store, "stuck")).toBeGreaterThan(token);
});

test("S4: exactly one session holds if a waiter takes its turn at the moment it is skipped, 25 rounds", async () => {
  const store = await openStore(zookeeper(), newRoot());
  const outcomes = { kept: 0, passed: 0 };
  await Promise.all(
    Array.from({ length: 25 }, async (_, round) => {
      const [one, late, next] = [`one${round}`, `late${round}`, `next${round}`] as const;
      const resource = `r${round}`;
      await openSessions(store, one, late, next);
      const first = await take(store, one, { resource });
      await ask(store, late, { resource });
      await ask(store, next, { resource });
      const { signal } = new AbortController();
      const place = { sessionId: next, resource, attempt: `${next}.1`, limitMs: LIMIT_MS, signal };
      const passing = waitUntilFree(store, place).then(() => ask(store, next, { resource }));
      await release(store, one, first, resource);
      await sleep(HEAD_START_MS - 15 + round * 2);
      const kept = await ask(store, late, { resource });
      if (kept.kind === "granted") {
        outcomes.kept += 1;
        expect((await ask(store, next, { resource, attempt: `${next}.2` })).kind).toBe("busy");
        await release(store, late, kept.token, resource);
        expect((await passing).kind).toBe("granted");
      } else {
        outcomes.passed += 1;
        expect((await passing).kind).toBe("granted");
        expect((await ask(store, late, { resource })).kind).toBe("busy");
      }
    }),
  );
  expect(outcomes.kept + outcomes.passed).toBe(25);
});

test("S4: a holder is never skipped, whether it was granted immediately or after a wait", async () => {
  const store = await openStore(zookeeper(), newRoot());
  await openSessions(store, "one", "two", "three");
  const first = await take(store, "one");
  await ask(store, "two");
  await ask(store, "three");
  const woken: string[] = [];
  const wait = (id: string): Promise<void> => untilFree(store, id).then(() => void woken.push(id));
  const waits = [wait("two"), wait("three")];
  await sleep(3 * HEAD_START_MS);
  expect(woken).toEqual([]);
  await release(store, "one", first);
  await waits[0];
  const second = await take(store, "two");
  await sleep(3 * HEAD_START_MS);
  expect(woken).toEqual(["two"]);
  const read = { resource: "r", consistency: "stale", limitMs: LIMIT_MS } as const;
  expect((await store.read(read)).holder).toMatchObject({ holderId: "two", token: second });
  await release(store, "two", second);
  await waits[1];
});

test("a waiter whose turn is next is not shown as the holder", async () => {
  const store = await openStore(zookeeper(), newRoot());
  await openSessions(store, "one", "two");
  const first = await take(store, "one");
  await ask(store, "two");
  await release(store, "one", first);
  const read = (): ReturnType<Store["read"]> =>
    store.read({ resource: "r", consistency: "linearizable", limitMs: LIMIT_MS });
  const list = (): ReturnType<Store["list"]> =>
    store.list({ prefix: "", limit: 10, limitMs: LIMIT_MS });
  expect((await read()).holder).toBeUndefined();
  expect((await list()).leases).toEqual([]);
  expect(await ask(store, "one", { attempt: "one.2", queue: false })).toEqual({ kind: "busy" });
  const token = await take(store, "two");
  expect((await read()).holder).toMatchObject({ holderId: "two", token });
  expect((await list()).leases).toHaveLength(1);
});

const DELETE = 2;
const SET_DATA = 5;

test("S4: a request to skip a waiter does nothing if it arrives after the waiter has taken its turn", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  await openSessions(other, "one", "late");
  await openSessions(store, "next");
  const first = await take(other, "one");
  await ask(other, "late");
  await ask(store, "next");
  let letGo = (): void => undefined;
  const hasBegun = new Promise<void>((begun) => {
    link.delay = (chunk) => {
      if (readOpcode(chunk) !== DELETE) return undefined;
      begun();
      return new Promise<void>((resolve) => {
        letGo = resolve;
      });
    };
  });
  const stop = new AbortController();
  const place = { sessionId: "next", resource: "r", attempt: "next.1", limitMs: LIMIT_MS };
  const wait = waitUntilFree(store, { ...place, signal: stop.signal }).catch(() => "stopped");
  await release(other, "one", first);
  await hasBegun;
  const token = await take(other, "late");
  letGo();
  link.delay = () => undefined;
  expect((await ask(store, "next")).kind).toBe("busy");
  expect(
    (await other.read({ resource: "r", consistency: "linearizable", limitMs: LIMIT_MS })).holder,
  ).toMatchObject({ holderId: "late", token });
  stop.abort();
  expect(await wait).toBe("stopped");
});

test("S4: a waiter whose mark was not answered knows that it waits, and takes its turn by a write", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  await openSessions(store, "one");
  await openSessions(other, "two");
  const first = await take(other, "two");
  link.dropRepliesFrom = (chunk) => readOpcode(chunk) === SET_DATA;
  await expect(ask(store, "one", { limitMs: 400 })).rejects.toMatchObject({ applied: "unknown" });
  link.dropRepliesFrom = () => false;
  await release(other, "two", first);
  const token = await take(store, "one");
  await using console = await Console.open(zookeeper());
  const [name, ...more] = await console.children(`${root}/leases/r`);
  expect(more).toEqual([]);
  const { stat } = await console.read(`${root}/leases/r/${name}`);
  // Written twice: first as waiting, then as taken. At version 1 the next waiter could skip it.
  expect(stat).toMatchObject({ czxid: token, version: 2 });
});

test("S1: a waiter whose request to take its turn was not answered holds with the same token", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  await openSessions(store, "one");
  await openSessions(other, "two");
  const first = await take(other, "two");
  expect((await ask(store, "one")).kind).toBe("busy");
  await release(other, "two", first);
  link.dropRepliesFrom = (chunk) => readOpcode(chunk) === SET_DATA;
  await expect(ask(store, "one", { limitMs: 400 })).rejects.toMatchObject({ applied: "unknown" });
  link.dropRepliesFrom = () => false;
  const { holder } = await other.read({
    resource: "r",
    consistency: "linearizable",
    limitMs: LIMIT_MS,
  });
  expect(await take(store, "one")).toBe(holder?.token);
  expect((await ask(other, "two", { attempt: "two.2", queue: false })).kind).toBe("busy");
});

test("a waiter keeps waiting, without another grant request, when three connections in a row break", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  await openSessions(store, "two");
  await openSessions(other, "one");
  const first = await take(other, "one");
  expect((await ask(store, "two")).kind).toBe("busy");
  const wait = untilFree(store, "two");
  let isOver = false;
  void wait.then(() => {
    isOver = true;
  });
  // The renewal finds the first connection broken, the checks after it find the others.
  let broken = 0;
  link.delay = () => {
    broken += 1;
    return broken <= 3 ? Promise.reject(new Error("broken")) : undefined;
  };
  const renewal = { sessionId: "two", withdrawn: [], acknowledged: [], limitMs: 200 };
  await store.renew(renewal).catch(() => undefined);
  await until("it has connected again", async () => broken > 3, LIMIT_MS);
  await sleep(HEAD_START_MS);
  expect(isOver).toBe(false);
  await release(other, "one", first);
  await wait;
  expect(await take(store, "two")).toBeGreaterThan(first);
});

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
  const short = useServer(startZooKeeper, { tickTimeMs: TICK_MS, maxSessionTimeoutMs: 800 });

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
    await sleep(2_000);
    const session = { sessionId: "one", holderId: "one", limitMs: LIMIT_MS };
    expect(await store.openSession({ ...session, ttlMs: 60_000 })).toEqual({ ttlMs: 800 });
    const token = await take(store, "one");
    expect((await read()).holder?.token).toBe(token);
  });
});
