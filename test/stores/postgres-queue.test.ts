// Goal: in a long queue a change wakes those whom it concerns, and nobody is forgotten when those before it are dead or stuck.
// Method: a real server that logs every statement; many waiters of one process, each with a session of its own.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../src/runtime/system.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import type { Store } from "../../src/stores/store.ts";
import { startPostgres } from "../servers/postgres.ts";
import { useServer } from "../servers/use-server.ts";

const postgres = useServer(startPostgres, { settings: { log_statement: "all" } });
const LIMIT_MS = 5_000;
const LONG_MS = 60_000;
let schemas = 0;

async function openStore(): Promise<Store> {
  schemas += 1;
  const schema = `queue_${schemas}`;
  const store = await postgresStore({ url: postgres().url, schema })(systemParts());
  onTestFinished(() => store.close());
  return store;
}

interface Waiter {
  readonly name: string;
  /** Resolves when it is worthwhile for it to ask. */
  readonly woken: Promise<string>;
  take(): Promise<string>;
}

async function hold(store: Store, name: string, ttlMs: number): Promise<() => Promise<unknown>> {
  await store.openSession({ sessionId: name, holderId: name, ttlMs, limitMs: LIMIT_MS });
  const session = { sessionId: name, resource: "r", limitMs: LIMIT_MS };
  const held = await store.grant({ ...session, holderId: name, attempt: name, queue: true });
  if (held.kind !== "granted") throw new Error(held.kind);
  return () => store.release({ ...session, token: held.token });
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

function looks(): number {
  return (
    postgres()
      .log()
      .match(/LOG: {2}execute.*\.look\(/g)?.length ?? 0
  );
}

test("a release wakes the first of twenty; two more look, the others do not", async () => {
  const store = await openStore();
  const release = await hold(store, "holder", LONG_MS);
  const names = Array.from({ length: 20 }, (_, index) => `w${index}`);
  const queue = await queueOf(store, names, LONG_MS);
  const before = looks();
  await release();
  expect(await Promise.race(queue.map(({ woken }) => woken))).toBe("w0");
  expect(await queue[0]?.take()).toBe("granted");
  // Longer than a head start, and than those in front go without a look.
  await sleep(1_000);
  expect(looks() - before).toBeGreaterThan(0);
  expect(looks() - before).toBeLessThan(10);
});

test("L1: one far behind is not forgotten when the holder and all before it die: its renewal tells it", async () => {
  const store = await openStore();
  await hold(store, "holder", 1_500);
  await queueOf(store, ["a", "b", "c"], 1_500);
  const [last] = await queueOf(store, ["last"], LONG_MS);
  await sleep(2_000);
  const renewal = { sessionId: "last", withdrawn: [], limitMs: LIMIT_MS };
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
