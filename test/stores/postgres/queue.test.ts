// Goal: who is far behind in a queue is not told of every change, and yet not forgotten when those before it are gone. Method:
// a real server; waiters of one process, each with a session of its own. What a change costs is counted in herd.test.ts.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, Store } from "../../../src/stores/contract.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";

const postgres = useServer(startPostgres);
const LIMIT_MS = 5_000;
const LONG_MS = 60_000;
let schemas = 0;

async function openStore(): Promise<Store> {
  schemas += 1;
  const schema = `queue_${schemas}`;
  const store = await postgresStore({ url: postgres().url, prefix: schema })(systemParts());
  onTestFinished(() => store.close());
  return store;
}

interface Waiter {
  readonly name: string;
  /** Resolves when it is worthwhile for it to ask. */
  readonly woken: Promise<string>;
  take(): Promise<string>;
}

async function hold(store: Store, name: string, ttlMs: number): Promise<GrantOutcome> {
  await store.openSession({ sessionId: name, holderId: name, ttlMs, limitMs: LIMIT_MS });
  const session = { sessionId: name, resource: "r", limitMs: LIMIT_MS };
  const held = await store.grant({ ...session, holderId: name, attempt: name, queue: true });
  expect(held.kind).toBe("granted");
  return held;
}

async function queueUp(store: Store, name: string, ttlMs: number): Promise<Waiter> {
  await store.openSession({ sessionId: name, holderId: name, ttlMs, limitMs: LIMIT_MS });
  const request = { sessionId: name, resource: "r", attempt: name, limitMs: LIMIT_MS };
  const ask = (): ReturnType<Store["grant"]> =>
    store.grant({ ...request, holderId: name, queue: true });
  expect((await ask()).kind).toBe("busy");
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const woken = store.untilFree({ ...request, signal: stop.signal }).then(() => name);
  woken.catch(() => undefined);
  return { name, woken, take: async () => (await ask()).kind };
}

async function queueOf(store: Store, names: readonly string[], ttlMs: number): Promise<Waiter[]> {
  const queue: Waiter[] = [];
  for (const name of names) queue.push(await queueUp(store, name, ttlMs));
  // Each has looked, and hears from now on.
  await sleep(500);
  return queue;
}

test("L1: one far behind is not forgotten when the holder and all before it die: its renewal tells it", async () => {
  const store = await openStore();
  await hold(store, "holder", 1_500);
  await queueOf(store, ["a", "b", "c"], 1_500);
  const [last] = await queueOf(store, ["last"], LONG_MS);
  await sleep(2_000);
  const renewal = { sessionId: "last", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS };
  expect((await store.renew(renewal)).kind).toBe("renewed");
  expect(await last?.woken).toBe("last");
  expect(await last?.take()).toBe("granted");
});

test("the end of a session hands on what it held, and its place in the queue", async () => {
  const store = await openStore();
  await hold(store, "holder", LONG_MS);
  const [, second, third] = await queueOf(store, ["first", "second", "third"], LONG_MS);
  await store.endSession({ sessionId: "first", limitMs: LIMIT_MS });
  await store.endSession({ sessionId: "holder", limitMs: LIMIT_MS });
  expect(await Promise.race([second?.woken, third?.woken])).toBe("second");
  expect(await second?.take()).toBe("granted");
});

test("L1: nobody waits for itself when a copy of its own request came late and was granted", async () => {
  const store = await openStore();
  const held = await hold(store, "a", LONG_MS);
  const { signal } = new AbortController();
  // It was told "busy" before, and does not know. Without the line in look() this would take the whole ttl.
  await store.untilFree({
    ...{ sessionId: "a", resource: "r", attempt: "a", limitMs: LIMIT_MS, signal },
  });
  const session = { sessionId: "a", resource: "r", limitMs: LIMIT_MS };
  const again = await store.grant({ ...session, holderId: "a", attempt: "a", queue: true });
  expect(again).toEqual(held);
});
