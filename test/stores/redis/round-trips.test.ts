// Goal: a grant, a release and a renewal take one round trip each, with any client; a user's own
// client is used as it is and left open. Method: a user's client that counts what it sends, on a
// real server.
import { Redis } from "ioredis";
import { createClient } from "redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { until } from "../../servers/ask.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";

const redis = useServer(startRedis, { own: true });
const LIMIT_MS = 5_000;
let sent = 0;

const makers = {
  ioredis: async () => {
    const client = new Redis(redis().url);
    onTestFinished(() => client.disconnect());
    return { client: counting(client, "call"), isUp: () => client.status === "ready" };
  },
  "node-redis": async () => {
    const client = createClient({ url: redis().url });
    await client.connect();
    onTestFinished(() => client.destroy());
    return { client: counting(client, "sendCommand"), isUp: () => client.isReady };
  },
};

/** The same client, but it counts the commands that it is asked to send. */
function counting<C extends object>(client: C, method: string): C {
  return new Proxy(client, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        if (name === method) sent += 1;
        return member.apply(target, args);
      };
    },
  });
}

async function trips<T>(request: () => Promise<T>): Promise<[number, T]> {
  const before = sent;
  const answer = await request();
  return [sent - before, answer];
}

/** Loads every script: a server process that does not have one costs one more command, once. */
async function loadAllScripts(store: Store): Promise<void> {
  await open(store, "first");
  const session = { sessionId: "first", limitMs: LIMIT_MS };
  const attempt = { ...session, resource: "first", attempt: "first.1" };
  await store.grant({ ...attempt, holderId: "first", queue: true });
  await store.renew({ ...session, withdrawn: [], acknowledged: [] });
  await store.read({ resource: "first", consistency: "linearizable", limitMs: LIMIT_MS });
}

async function open(store: Store, sessionId: string): Promise<void> {
  await store.openSession({ sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: LIMIT_MS });
}

describe.each(Object.entries(makers))("a user's own %s client", (name, make) => {
  test("a grant, a busy reply, a release, a renewal of a hundred leases and a read take one command each", async () => {
    const { client, isUp } = await make();
    const store = await redisStore({ client, prefix: `trips-${name}` })(systemParts());
    await loadAllScripts(store);
    await open(store, "one");
    const session = { sessionId: "one", limitMs: LIMIT_MS };
    const ask = (resource: string, attempt: string): ReturnType<Store["grant"]> =>
      store.grant({ ...session, resource, attempt, holderId: "one", queue: false });
    for (let lease = 0; lease < 100; lease += 1) {
      const [count, outcome] = await trips(() => ask(`r${lease}`, `a${lease}`));
      expect([count, outcome.kind]).toEqual([1, "granted"]);
      if (outcome.kind !== "granted" || lease > 0) continue;
      expect((await trips(() => ask("r0", "other")))[0]).toBe(1);
      const first = { ...session, resource: "r0", token: outcome.token };
      expect(await trips(() => store.release(first))).toEqual([1, { kind: "released" }]);
    }
    const renewal = await trips(() => store.renew({ ...session, withdrawn: [], acknowledged: [] }));
    expect(renewal).toEqual([
      1,
      { kind: "renewed", ttlMs: 60_000, gone: [], granted: [], wanted: [], waiting: 0 },
    ]);
    const acknowledged = [{ resource: "r0", token: 1n }];
    const second = await trips(() => store.renew({ ...session, withdrawn: [], acknowledged }));
    expect(second).toEqual([
      1,
      { kind: "renewed", ttlMs: 60_000, gone: [], granted: [], wanted: [], waiting: 0 },
    ]);
    const question = { resource: "r1", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    expect((await trips(() => store.read(question)))[0]).toBe(1);
    await store.close();
    expect(isUp()).toBe(true);
  });

  test("a contended lock takes two commands: the grant, which queues, and the release, which hands off", async () => {
    const { client } = await make();
    const store = await redisStore({ client, prefix: `wake-${name}` })(systemParts());
    onTestFinished(() => store.close());
    await loadAllScripts(store);
    const reports: RecordedEvents[] = [];
    const names = ["a", "b", "c"];
    for (const sessionId of names) {
      const events = new RecordedEvents();
      reports.push(events);
      await store.openSession({
        sessionId,
        holderId: sessionId,
        ttlMs: 60_000,
        events,
        limitMs: LIMIT_MS,
      });
    }
    const before = sent;
    let token = 0n;
    for (const sessionId of names) {
      const request = { sessionId, holderId: sessionId, attempt: `${sessionId}.1`, resource: "r" };
      const outcome = await store.grant({ ...request, queue: true, limitMs: LIMIT_MS });
      if (outcome.kind === "granted") token = outcome.token;
    }
    for (const [index, sessionId] of names.entries()) {
      await store.release({ sessionId, resource: "r", token, limitMs: LIMIT_MS });
      const { grants = [] } = reports[index + 1] ?? {};
      if (index + 1 === names.length) break;
      await until("the waiter is notified", async () => grants.length === 1, LIMIT_MS);
      token = grants[0]?.token ?? 0n;
    }
    expect(sent - before).toBe(2 * names.length);
  });

  test("a release that is not awaited shares a command with the next grant", async () => {
    const { client } = await make();
    const store = await redisStore({ client, prefix: `share-${name}` })(systemParts());
    onTestFinished(() => store.close());
    await loadAllScripts(store);
    await open(store, "one");
    const one = { sessionId: "one", holderId: "one", resource: "r", limitMs: LIMIT_MS };
    let last = await store.grant({ ...one, attempt: "one.0", queue: false });
    const before = sent;
    for (let round = 1; round <= 5; round += 1) {
      const token = last.kind === "granted" ? last.token : 0n;
      const released = store.release({ ...one, token });
      last = await store.grant({ ...one, attempt: `one.${round}`, queue: false });
      expect([await released, last.kind]).toEqual([{ kind: "released" }, "granted"]);
    }
    expect(sent - before).toBe(5);
  });
});

describe("names", () => {
  test("resource names that look like parts of a key are kept apart", async () => {
    const store = await redisStore({ url: redis().url, prefix: "names" })(systemParts());
    onTestFinished(() => store.close());
    await open(store, "one");
    const names = ["a:b", "a", "{x}", "{names}:token", "r:a", "a\r\nb", "\r\n", "*", "token"];
    names.push("held", "l:a", "é".repeat(256), `${"é".repeat(255)}e`);
    const tokens = new Set<bigint>();
    for (const [index, resource] of names.entries()) {
      const request = { sessionId: "one", holderId: "one", attempt: `a${index}`, queue: false };
      const outcome = await store.grant({ ...request, resource, limitMs: LIMIT_MS });
      if (outcome.kind !== "granted") throw new Error(`${resource}: ${outcome.kind}`);
      tokens.add(outcome.token);
    }
    expect(tokens.size).toBe(names.length);
    const page = await store.list({ prefix: "", limit: 100, limitMs: LIMIT_MS });
    expect(page.leases.map((view) => view.resource).sort()).toEqual([...names].sort());
    const some = await store.list({ prefix: "a", after: "", limit: 100, limitMs: LIMIT_MS });
    expect(some.leases.map((view) => view.resource)).toEqual(["a", "a\r\nb", "a:b"]);
  });

  test("queue entries of sessions with similar names are kept apart", async () => {
    const store = await redisStore({ url: redis().url, prefix: "queues" })(systemParts());
    onTestFinished(() => store.close());
    const ask = (sessionId: string, attempt: string): ReturnType<Store["grant"]> =>
      store.grant({
        sessionId,
        attempt,
        holderId: "h",
        resource: "r",
        queue: true,
        limitMs: LIMIT_MS,
      });
    for (const id of ["holder", "1", "11:", "a b"]) await open(store, id);
    const held = await ask("holder", "h");
    await ask("11:", "x");
    await ask("1", "y");
    await ask("a b", "c d");
    await store.endSession({ sessionId: "11:", limitMs: LIMIT_MS });
    const token = held.kind === "granted" ? held.token : 0n;
    await store.release({ sessionId: "holder", resource: "r", token, limitMs: LIMIT_MS });
    expect((await ask("a b", "c d")).kind).toBe("queued");
    expect((await ask("1", "y")).kind).toBe("granted");
  });
});
