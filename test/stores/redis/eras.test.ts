// Goal: whatever a Redis server has forgotten, its next token is above all earlier ones, a holder
// whose lease is gone learns it from its next renewal, and waiters are served. Method: real servers
// that are killed, restored from an older snapshot, flushed and replaced by a replica. The Lua
// version of the era rule is compared with the TypeScript version.
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test } from "vitest";
import { ERA_GAP, startOfEra } from "../../../src/core/era.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, Store } from "../../../src/stores/contract.ts";
import { START_ERA } from "../../../src/stores/redis/era.lua.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { until } from "../../servers/ask.ts";
import { type RedisServer, startRedis, startRedisPair } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";

const LIMIT_MS = 5_000;
const libraries = ["ioredis", "redis"] as const;
let prefixes = 0;
let attempts = 0;

interface World {
  readonly store: Store;
  readonly base: string;
  enter(sessionId: string): Promise<RecordedEvents>;
  ask(sessionId: string, resource: string, more?: object): Promise<GrantOutcome>;
  take(sessionId: string, resource: string): Promise<bigint>;
  /** Retries until the server answers again. */
  renew(sessionId: string): ReturnType<Store["renew"]>;
}

async function openWorld(server: RedisServer, library: (typeof libraries)[number]): Promise<World> {
  prefixes += 1;
  const prefix = `eras${prefixes}`;
  const store = await redisStore({ url: server.url, library, prefix })(systemParts());
  onTestFinished(() => store.close());
  const ask: World["ask"] = (sessionId, resource, more) => {
    attempts += 1;
    const who = { sessionId, holderId: sessionId, attempt: `attempt ${attempts}` };
    return store.grant({ ...who, resource, queue: false, limitMs: LIMIT_MS, ...more });
  };
  return {
    store,
    base: `{${prefix}}:`,
    ask,
    enter: async (sessionId) => {
      const events = new RecordedEvents();
      const request = { sessionId, holderId: sessionId, ttlMs: 60_000, events, limitMs: LIMIT_MS };
      await retryUntilAnswered(() => store.openSession(request));
      return events;
    },
    take: async (sessionId, resource) => {
      const outcome = await ask(sessionId, resource);
      if (outcome.kind !== "granted") throw new Error(outcome.kind);
      return outcome.token;
    },
    renew: (sessionId) =>
      retryUntilAnswered(() =>
        store.renew({ sessionId, withdrawn: [], acknowledged: [], limitMs: 1_000 }),
      ),
  };
}

async function retryUntilAnswered<T>(request: () => Promise<T>): Promise<T> {
  let answer: T | undefined;
  const isAnswered = async (): Promise<boolean> => {
    answer = await request().catch(() => undefined);
    return answer !== undefined;
  };
  await until("the server answers again", isAnswered, 20_000);
  return answer as T;
}

/** The token of the first grant that was reported to the session by a notification. */
async function reportedToken({ grants }: RecordedEvents): Promise<bigint> {
  await until("the waiter is notified", async () => grants.length > 0, LIMIT_MS);
  return grants[0]?.token ?? 0n;
}

describe.each(libraries)("through %s", (library) => {
  const redis = useServer(startRedis, { own: true });

  test("S1, S5: after SIGKILL and a restart with an older snapshot, leases it lacks are reported gone and the others continue", async () => {
    const here = await openWorld(redis(), library);
    for (const id of ["one", "two"]) await here.enter(id);
    const kept = await here.take("one", "kept");
    await redis().command("SAVE");
    const snapshot = join(redis().folder, "dump.rdb");
    copyFileSync(snapshot, join(redis().folder, "older.rdb"));
    const missed = await here.take("one", "r");
    let highest = missed;
    for (let more = 0; more < 20; more += 1) highest = await here.take("one", `more ${more}`);
    await redis().kill();
    copyFileSync(join(redis().folder, "older.rdb"), snapshot);
    onTestFinished(() => rmSync(snapshot, { force: true }));
    await redis().start();
    const renewed = await here.renew("one");
    if (renewed.kind !== "renewed") throw new Error(renewed.kind);
    expect(renewed.gone).toContainEqual({ resource: "r", token: missed });
    expect(renewed.gone).toHaveLength(21);
    expect(await here.take("two", "r")).toBeGreaterThan(highest);
    const release = { sessionId: "one", resource: "kept", token: kept, limitMs: LIMIT_MS };
    expect(await here.store.release(release)).toEqual({ kind: "released" });
    // It is reported only once.
    expect(await here.renew("one")).toMatchObject({ kind: "renewed", gone: [] });
  });

  test("S1: FLUSHALL ends every session, and tokens keep increasing", async () => {
    const here = await openWorld(redis(), library);
    await here.enter("one");
    const before = await here.take("one", "r");
    await redis().command("FLUSHALL");
    expect(await here.renew("one")).toEqual({ kind: "gone" });
    await here.enter("two");
    const next = await here.take("two", "r");
    expect(next).toBeGreaterThan(before);
    expect(await here.take("two", "never seen")).toBe(next + 1n);
  });

  test("S1: if its counter is deleted, the server continues above all tokens, leases stay held, and a waiter is served", async () => {
    const here = await openWorld(redis(), library);
    await here.enter("one");
    const two = await here.enter("two");
    const before = await here.take("one", "r");
    expect((await here.ask("two", "r", { queue: true })).kind).toBe("queued");
    await redis().command("DEL", `${here.base}token`);
    expect(await here.renew("one")).toMatchObject({ kind: "renewed", gone: [] });
    expect(await here.take("one", "other")).toBeGreaterThan(before);
    const release = { sessionId: "one", resource: "r", token: before, limitMs: LIMIT_MS };
    expect(await here.store.release(release)).toEqual({ kind: "released" });
    expect(await reportedToken(two)).toBeGreaterThan(before);
  });

  test("SCRIPT FLUSH starts no era: tokens increase by one, and renewals report nothing gone", async () => {
    const here = await openWorld(redis(), library);
    await here.enter("one");
    const before = await here.take("one", "r");
    const era = await redis().command("GET", `${here.base}era`);
    await redis().command("SCRIPT", "FLUSH");
    expect(await here.take("one", "next")).toBe(before + 1n);
    expect(await here.renew("one")).toMatchObject({ kind: "renewed", gone: [] });
    expect(await redis().command("GET", `${here.base}era`)).toBe(era);
  });

  test("S1, S5: a promoted replica that missed grants continues above them, reports them gone, and serves waiters", async () => {
    const pair = await startRedisPair({ own: true });
    onTestFinished(() => pair[Symbol.asyncDispose]());
    const { master, replica } = pair;
    const here = await openWorld(master, library);
    for (const id of ["one", "two"]) await here.enter(id);
    const kept = await here.take("one", "r");
    expect((await here.ask("two", "r", { queue: true })).kind).toBe("queued");
    const isCopied = async (): Promise<boolean> =>
      (await replica.command("ZCARD", `${here.base}w:r`)) === 1;
    await until("the replica has the waiter", isCopied, 5_000);
    await replica.command("REPLICAOF", "NO", "ONE");
    let missed = kept;
    for (let more = 0; more < 20; more += 1) missed = await here.take("one", `missed ${more}`);
    await master.kill();
    // The replica takes over the master's address, as with a virtual IP address.
    await replica.command("CONFIG", "SET", "port", String(master.port));
    const renewed = await here.renew("one");
    if (renewed.kind !== "renewed") throw new Error(renewed.kind);
    expect(renewed.gone).toHaveLength(20);
    expect(renewed.gone).toContainEqual({ resource: "missed 19", token: missed });
    const release = { sessionId: "one", resource: "r", token: kept, limitMs: LIMIT_MS };
    expect(await here.store.release(release)).toEqual({ kind: "released" });
    // The subscription may not have followed yet, so the renewal reports the grant.
    const waiter = await here.renew("two");
    if (waiter.kind !== "renewed") throw new Error(waiter.kind);
    expect(waiter.granted).toHaveLength(1);
    expect(waiter.granted?.[0]?.token).toBeGreaterThan(missed);
    expect(await here.take("one", "missed 0")).toBeGreaterThan(missed);
  });
});

describe("the start of an era in Lua", () => {
  const redis = useServer(startRedis, { own: true });

  test("startEra() in Lua equals startOfEra() exactly", async () => {
    // Here the server's clock is an argument: seconds and microseconds, as in the reply to TIME.
    const text = `${START_ERA.replaceAll("<base>", "{lua}:").replace("redis.call('TIME')", "ARGV")}\nreturn startEra(ARGV[3])`;
    const clocks = fc.bigInt({ min: 1n, max: 2n ** 53n - 4n * ERA_GAP });
    const offsets = fc.oneof(
      fc.bigInt({ min: -3n, max: 3n }),
      fc.bigInt({ min: ERA_GAP - 3n, max: ERA_GAP + 3n }),
      fc.bigInt({ min: 0n, max: 2n * ERA_GAP }),
      fc.bigInt({ min: -50n * ERA_GAP, max: 0n }),
    );
    const lasts = fc.oneof(fc.constant(0n), fc.bigInt({ min: 1n, max: 2n ** 62n }));
    await fc.assert(
      fc.asyncProperty(
        clocks,
        fc.oneof(
          lasts,
          offsets.map((by) => ({ by })),
        ),
        async (clock, other) => {
          const near = typeof other === "bigint" ? other : clock - other.by;
          const last = near < 0n ? 0n : near;
          const time = [String(clock / 1_000_000n), String(clock % 1_000_000n)];
          const floor = await redis().command("EVAL", text, "0", ...time, String(last));
          expect(floor).toBe(String(startOfEra(last, clock)));
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("a server before 7.0, which keeps its scripts across a restart", () => {
  const server = useServer(startRedis, { own: true });

  /** A client whose server claims to have this version. */
  function disguised(version: string): Redis {
    const client = new Redis(server().url);
    onTestFinished(() => client.disconnect());
    return new Proxy(client, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (name !== "call") return member;
        return async (...words: [string]) => {
          const answer = await target.call(...words);
          return words[0] === "info"
            ? String(answer).replace(/redis_version:\S+/, `redis_version:${version}`)
            : answer;
        };
      },
    });
  }

  // Each call compares the run id, so no restart is needed: the test writes an era of another
  // process.
  test.each([
    ["6.2.14", true],
    ["7.0.15", false],
  ])(
    "S1: on version %s, an era of another process is noticed although the script is loaded: %s",
    async (version, isNoticed) => {
      const prefix = `old${version}`;
      const store = await redisStore({ client: disguised(version), prefix })(systemParts());
      onTestFinished(() => store.close());
      const session = { sessionId: "s", holderId: "s", limitMs: LIMIT_MS };
      await store.openSession({ ...session, ttlMs: 60_000 });
      const take = async (attempt: string): Promise<bigint> => {
        const outcome = await store.grant({ ...session, resource: attempt, attempt, queue: false });
        return outcome.kind === "granted" ? outcome.token : 0n;
      };
      const first = await take("one");
      await server().command("SET", `{${prefix}}:era`, "0123456789abcdef 1");
      const second = await take("two");
      expect(second - first > ERA_GAP / 2n).toBe(isNoticed);
      expect(second).toBeGreaterThan(first);
    },
  );
});
