// Goal: a waiter far back in a queue is not notified of every change, and is still served when all
// waiters before it are gone. Method: a real server; all waiters are in one process, each with its
// own session. test/stores/all/herd.test.ts counts the requests that a change costs.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, Store } from "../../../src/stores/contract.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";

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
  /** Resolves when a grant is likely to succeed. */
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
  const woken = waitUntilFree(store, { ...request, signal: stop.signal }).then(() => name);
  woken.catch(() => undefined);
  return { name, woken, take: async () => (await ask()).kind };
}

async function queueAll(store: Store, names: readonly string[], ttlMs: number): Promise<Waiter[]> {
  const queue: Waiter[] = [];
  for (const name of names) queue.push(await queueUp(store, name, ttlMs));
  // By now each has made its first check and receives notifications.
  await sleep(500);
  return queue;
}

test("L1: a waiter far back in the queue learns through its renewal that the holder and all waiters before it died", async () => {
  const store = await openStore();
  await hold(store, "holder", 1_500);
  await queueAll(store, ["a", "b", "c"], 1_500);
  const [last] = await queueAll(store, ["last"], LONG_MS);
  await sleep(2_000);
  const renewal = { sessionId: "last", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS };
  expect((await store.renew(renewal)).kind).toBe("renewed");
  expect(await last?.woken).toBe("last");
  expect(await last?.take()).toBe("granted");
});

test("ending a session passes on what it held, and frees its position in the queue", async () => {
  const store = await openStore();
  await hold(store, "holder", LONG_MS);
  const [, second, third] = await queueAll(store, ["first", "second", "third"], LONG_MS);
  await store.endSession({ sessionId: "first", limitMs: LIMIT_MS });
  await store.endSession({ sessionId: "holder", limitMs: LIMIT_MS });
  expect(await Promise.race([second?.woken, third?.woken])).toBe("second");
  expect(await second?.take()).toBe("granted");
});

test("L1: a waiter does not wait for itself if a late copy of its own request was granted", async () => {
  const store = await openStore();
  const held = await hold(store, "a", LONG_MS);
  const { signal } = new AbortController();
  // The waiter was answered "busy" and does not know about the grant. Without the check in look()
  // it would wait for the whole ttl.
  const request = { sessionId: "a", resource: "r", attempt: "a", limitMs: LIMIT_MS, signal };
  await waitUntilFree(store, request);
  const session = { sessionId: "a", resource: "r", limitMs: LIMIT_MS };
  const again = await store.grant({ ...session, holderId: "a", attempt: "a", queue: true });
  expect(again).toEqual(held);
});
