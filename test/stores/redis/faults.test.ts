// Goal: the store keeps its guarantees when the link or the server fails. Method: real servers, a
// proxy that silently loses packets, SIGKILL, SIGSTOP and a replica that missed writes; holders are
// complete Tenures. Holders that are cut off are tested in test/faults/.
import { describe, expect, onTestFinished, test } from "vitest";
import { isTenureError } from "../../../src/core/errors.ts";
import { connect, type Tenure } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { type RedisOptions, redisStore } from "../../../src/stores/redis/index.ts";
import { until } from "../../servers/ask.ts";
import { startProxy, type TcpProxy } from "../../servers/proxy.ts";
import { type RedisServer, startRedis, startRedisPair } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { expectLostRepliesHarmless, reasonOf } from "../../support/stores/lost-replies.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

/** Bounds wide enough for two busy cores, and still a short test. */
const timing = { ttlMs: 900, clockErrorMs: 20, roundTripMs: 150, renewEveryMs: 250 };
const libraries = ["ioredis", "redis"] as const;
let prefixes = 0;

async function holder(options: RedisOptions): Promise<Tenure> {
  const tenure = await connect(redisStore(options), { defaults: timing });
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  return tenure;
}

async function opened(options: RedisOptions): Promise<Store> {
  const store = await redisStore(options)(systemParts());
  onTestFinished(() => store.close());
  return store;
}

async function proxied(server: RedisServer): Promise<TcpProxy> {
  const proxy = await startProxy(server);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  return proxy;
}

function newPrefix(): string {
  prefixes += 1;
  return `faults${prefixes}`;
}

describe.each(libraries)("a broken link, through %s", (library) => {
  const redis = useServer(startRedis, { own: true });

  test("a grant whose reply was lost does not block the resource, and no token repeats", async () => {
    const proxy = await proxied(redis());
    const prefix = newPrefix();
    const first = await holder({ url: proxy.url, library, prefix });
    const second = await holder({ url: redis().url, library, prefix });
    await expectLostRepliesHarmless(proxy, first, second);
  });

  test("L2: a handoff while the message connection is broken is reported by the next renewal, later ones by notification", async () => {
    const prefix = newPrefix();
    const store = await opened({ url: redis().url, library, prefix });
    const events = new RecordedEvents();
    for (const sessionId of ["one", "two"]) {
      const request = { sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: 5_000 };
      await store.openSession({ ...request, ...(sessionId === "two" ? { events } : {}) });
    }
    const ask = (sessionId: string, resource: string): ReturnType<Store["grant"]> => {
      const attempt = `${sessionId}.${resource}`;
      const request = { sessionId, attempt, holderId: sessionId, resource, queue: true };
      return store.grant({ ...request, limitMs: 5_000 });
    };
    const releaseToWaiter = async (resource: string): Promise<void> => {
      const held = await ask("one", resource);
      expect((await ask("two", resource)).kind).toBe("queued");
      const token = held.kind === "granted" ? held.token : 0n;
      if (resource === "broken") await redis().command("CLIENT", "KILL", "TYPE", "pubsub");
      await store.release({ sessionId: "one", resource, token, limitMs: 5_000 });
    };
    await releaseToWaiter("broken");
    const two = { sessionId: "two", withdrawn: [], acknowledged: [], limitMs: 5_000 };
    expect(await store.renew(two)).toMatchObject({ granted: [{ attempt: "two.broken" }] });
    const isSubscribed = async (): Promise<boolean> =>
      String(await redis().command("PUBSUB", "CHANNELS", `{${prefix}}:f:*`)) !== "";
    await until("the store has subscribed again", isSubscribed, 5_000);
    await releaseToWaiter("restored");
    const isNotified = (): boolean =>
      events.grants.some(({ attempt }) => attempt === "two.restored");
    await until("the waiter is notified", async () => isNotified(), 5_000);
  });

  test("L3: a connection that a router has silently dropped costs one renewal but not the lease", async () => {
    const proxy = await proxied(redis());
    const tenure = await connect(redisStore({ url: proxy.url, library, prefix: newPrefix() }), {
      defaults: { ttlMs: 2_400, clockErrorMs: 20, roundTripMs: 200, renewEveryMs: 600 },
    });
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    const lease = await tenure.acquire("r");
    proxy.strand();
    const isInDoubt = async (): Promise<boolean> => {
      try {
        lease.check();
        return false;
      } catch (error) {
        return isTenureError(error, "LEASE_IN_DOUBT");
      }
    };
    await until("the lease is in doubt", isInDoubt, 2_000);
    await lease.confirmed();
    expect(proxy.counts().requests.droppedBytes).toBeGreaterThan(0);
    expect(await lease.release()).toBe("released");
  });

  test("L2: ending a session also hands off a lease whose grant reply was lost", async () => {
    const proxy = await proxied(redis());
    const prefix = newPrefix();
    const store = await opened({ url: proxy.url, library, prefix });
    const other = await opened({ url: redis().url, library, prefix });
    const events = new RecordedEvents();
    const session = { sessionId: "one", limitMs: 5_000 };
    const two = { sessionId: "two", holderId: "two", limitMs: 5_000 };
    await store.openSession({ ...session, holderId: "one", ttlMs: 60_000 });
    await other.openSession({ ...two, ttlMs: 60_000, events });
    const ask = { ...session, resource: "r", attempt: "one.1", holderId: "one", queue: false };
    // Loads the script. Otherwise the lost reply would be the one that asks for the script.
    expect((await store.grant({ ...ask, resource: "other" })).kind).toBe("granted");
    proxy.cut("replies");
    expect(await reasonOf(store.grant({ ...ask, limitMs: 200 }))).toMatchObject({
      applied: "unknown",
    });
    const wait = { ...two, resource: "r", attempt: "two.1", queue: true };
    expect(await other.grant(wait)).toEqual({ kind: "queued", holderId: "one" });
    await proxy.heal();
    const hasEnded = (): Promise<boolean> =>
      store.endSession(session).then(
        () => true,
        () => false,
      );
    await until("the session is ended over a new connection", hasEnded, 10_000);
    await until("the waiter is notified", async () => events.grants.length === 1, 5_000);
  });

  test("S7: a request to a frozen server fails with an unknown outcome within its limit, and the server is used again later", async () => {
    const store = await opened({ url: redis().url, library, prefix: newPrefix() });
    const session = { sessionId: "one", limitMs: 200 };
    await store.openSession({ ...session, holderId: "one", ttlMs: 60_000 });
    await redis().pause();
    try {
      const stopwatch = startStopwatch();
      const error = await reasonOf(store.renew({ ...session, withdrawn: [], acknowledged: [] }));
      expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
      expect(stopwatch.elapsedMs()).toBeLessThan(600);
    } finally {
      await redis().resume();
    }
    const renewed = async (): Promise<boolean> =>
      (await store.renew({ ...session, withdrawn: [], acknowledged: [] }).catch(() => undefined))
        ?.kind === "renewed";
    await until("renewals work again", renewed, 10_000);
  });
});

describe("a server that dies", () => {
  const durable = useServer(startRedis, { appendonly: true, appendfsync: "always" });
  const forgetful = useServer(startRedis, { own: true });

  test("S1: tokens keep increasing after SIGKILL and restart of a server that persists every write, for old and new processes", async () => {
    const options = { url: durable().url, prefix: newPrefix() };
    const tenure = await holder(options);
    expect(tenure.guarantees.durable).toBe(true);
    let before = 0n;
    for (let round = 0; round < 3; round += 1) {
      const lease = await tenure.acquire("r", { waitMs: 10_000 });
      expect(lease.token).toBeGreaterThan(before);
      before = lease.token;
      await durable().kill();
      await durable().start();
      await lease.release().catch(() => undefined);
    }
    const fresh = await (await holder(options)).acquire("r", { waitMs: 10_000 });
    expect(fresh.token).toBeGreaterThan(before);
  });

  test("S1: tokens keep increasing after SIGKILL of a server without persistence, and the holder learns that its lease is gone", async () => {
    const warnings: string[] = [];
    const onWarning = (text: string): void => void warnings.push(text);
    const tenure = await holder({ url: forgetful().url, prefix: newPrefix(), onWarning });
    expect(tenure.guarantees.durable).toBe(false);
    expect(tenure.guarantees.tokenFalls).toContain("everything is lost");
    expect(warnings.join(" ")).toContain("appendonly yes");
    const reported: string[] = [];
    const parts = { ...systemParts(), warn: (text: string): void => void reported.push(text) };
    await (await redisStore({ url: forgetful().url })(parts)).close();
    expect(reported).toEqual(warnings);
    for (let round = 0; round < 3; round += 1) await (await tenure.acquire("r")).release();
    const held = await tenure.acquire("r");
    const ended = new Promise((resolve) => held.signal.addEventListener("abort", resolve));
    await forgetful().kill();
    await forgetful().start();
    await ended;
    expect(held.signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "expired" });
    const next = await tenure.acquire("r", { waitMs: 5_000 });
    expect(next.token).toBeGreaterThan(held.token);
  });
});

describe("a failover", () => {
  test("S1: if a replica that missed writes takes over, tokens keep increasing, and a lease that it missed is revoked", async () => {
    const pair = await startRedisPair({ own: true });
    onTestFinished(() => pair[Symbol.asyncDispose]());
    const { master, replica } = pair;
    // The session must survive the change of servers, which is slow on a busy machine.
    const defaults = { ...timing, ttlMs: 20_000, renewEveryMs: 500 };
    const tenure = await connect(redisStore({ url: master.url }), { defaults });
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    expect(tenure.guarantees.tokenFalls).toContain("replica that missed writes");
    const first = await tenure.acquire("r");
    await first.release();
    const kept = await tenure.acquire("kept");
    const isCopied = async (): Promise<boolean> =>
      (await replica.command("GET", "{tenure}:token")) === String(kept.token);
    await until("the replica has the first tokens", isCopied, 5_000);
    await replica.command("REPLICAOF", "NO", "ONE");
    const seen: bigint[] = [];
    for (let round = 0; round < 3; round += 1) {
      const lease = await tenure.acquire("r");
      seen.push(lease.token);
      await lease.release();
    }
    const missed = await tenure.acquire("missed");
    const ended = new Promise((resolve) => missed.signal.addEventListener("abort", resolve));
    await master.kill();
    // The replica takes over the master's address, as with a virtual IP address.
    await replica.command("CONFIG", "SET", "port", String(master.port));
    await ended;
    expect(missed.signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    const next = await tenure.acquire("r", { waitMs: 10_000 });
    for (const token of [...seen, missed.token]) expect(next.token).toBeGreaterThan(token);
    // A lease that the replica did not miss is kept.
    expect(await kept.release()).toBe("released");
  });

  test("with `replicas: 1`, only grants that the replica confirmed count, and others are released again", async () => {
    const pair = await startRedisPair({ own: true });
    onTestFinished(() => pair[Symbol.asyncDispose]());
    const { master, replica } = pair;
    const store = await opened({ url: master.url, replicas: 1 });
    const one = { sessionId: "one", holderId: "one", limitMs: 3_000 };
    await store.openSession({ ...one, ttlMs: 60_000 });
    const ask = (attempt: string): ReturnType<Store["grant"]> =>
      store.grant({ ...one, resource: "r", attempt, queue: false });
    const granted = await ask("one.1");
    if (granted.kind !== "granted") throw new Error(granted.kind);
    expect(await replica.command("GET", "{tenure}:token")).toBe(String(granted.token));
    await replica.pause();
    try {
      const again = await reasonOf(ask("one.1"));
      expect(again).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
      expect(String(again)).toMatch(/0 of 1 replicas/);
      const late = await reasonOf(store.renew({ ...one, withdrawn: [], acknowledged: [] }));
      expect(late).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
      const read = { resource: "r", consistency: "linearizable", limitMs: 3_000 } as const;
      const isFree = async (): Promise<boolean> => (await store.read(read)).holder === undefined;
      await until("the unconfirmed grant is released", isFree, 5_000);
    } finally {
      await replica.resume();
    }
    let tries = 1;
    const isGranted = async (): Promise<boolean> => {
      tries += 1;
      return (await ask(`one.${tries}`).catch(() => undefined))?.kind === "granted";
    };
    await until("it is granted again", isGranted, 10_000);
  });

  test("with `replicas: 1`, a waiter learns of a handoff only if the replica has it", async () => {
    const pair = await startRedisPair({ own: true });
    onTestFinished(() => pair[Symbol.asyncDispose]());
    const { master, replica } = pair;
    const store = await opened({ url: master.url, replicas: 1 });
    const events = new RecordedEvents();
    for (const sessionId of ["one", "two"])
      await store.openSession({
        sessionId,
        holderId: sessionId,
        ttlMs: 60_000,
        events,
        limitMs: 3_000,
      });
    const ask = (sessionId: string, attempt: string): ReturnType<Store["grant"]> =>
      store.grant({
        sessionId,
        holderId: sessionId,
        attempt,
        resource: "r",
        queue: true,
        limitMs: 3_000,
      });
    const handOff = async (round: number): Promise<void> => {
      const held = await ask("one", `one.${round}`);
      if (held.kind !== "granted") throw new Error(held.kind);
      expect((await ask("two", `two.${round}`)).kind).toBe("queued");
      if (round > 1) await replica.pause();
      await store.release({ sessionId: "one", resource: "r", token: held.token, limitMs: 3_000 });
    };
    await handOff(1);
    await until("the waiter is notified", async () => events.grants.length === 1, 5_000);
    const [first] = events.grants;
    const { token = 0n } = first ?? {};
    await store.release({ sessionId: "two", resource: "r", token, limitMs: 3_000 });
    try {
      await handOff(2);
      const read = { resource: "r", consistency: "linearizable", limitMs: 3_000 } as const;
      const isFree = async (): Promise<boolean> => (await store.read(read)).holder === undefined;
      await until("the unconfirmed grant is withdrawn", isFree, 5_000);
      expect(events.grants).toEqual([first]);
    } finally {
      await replica.resume();
    }
  });

  test("READONLY: a request to a master that became a replica changes nothing, and the error says so", async () => {
    const pair = await startRedisPair({ own: true });
    onTestFinished(() => pair[Symbol.asyncDispose]());
    const { master, replica } = pair;
    const store = await opened({ url: master.url });
    const session = { sessionId: "one", limitMs: 2_000 };
    await store.openSession({ ...session, holderId: "one", ttlMs: 60_000 });
    // Otherwise the new master may not know the session.
    const isCopied = async (): Promise<boolean> =>
      (await replica.command("EXISTS", "{tenure}:s:one")) === 1;
    await until("the replica has the session", isCopied, 5_000);
    await replica.command("REPLICAOF", "NO", "ONE");
    await master.command("REPLICAOF", replica.host, String(replica.port));
    const error = await reasonOf(store.renew({ ...session, withdrawn: [], acknowledged: [] }));
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no" });
    expect(String(error)).toMatch(/read-only replica now/);
  });
});
