// Goal: connecting to a server that cannot be used fails in time, with a message that names the
// cause and the setting to change. Method: real servers that are set up wrongly; only the version
// of a server that is too old is mocked.
import { createServer } from "node:net";
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { loadLibrary, type Wire } from "../../../src/clients/redis/wire.ts";
import { isTenureError, type TenureError } from "../../../src/core/errors.ts";
import { connect } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Grant } from "../../../src/stores/contract.ts";
import { type RedisOptions, redisStore } from "../../../src/stores/redis/index.ts";
import { inspect, promises, rejectUnsuitable } from "../../../src/stores/redis/inspect.ts";
import { until } from "../../servers/ask.ts";
import { startProxy } from "../../servers/proxy.ts";
import { startRedis, startRedisPair } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

/** For a server that does not answer: the limit decides. */
const SILENT_MS = 2_000;
/** For a server that answers, however busy the machine is: the limit decides nothing. */
const LIMIT_MS = 20_000;
const libraries = ["ioredis", "redis"] as const;

/** The error of opening the store, which must come within the limit. */
async function refusal(options: RedisOptions): Promise<TenureError> {
  const stopwatch = startStopwatch();
  const { connectMs = LIMIT_MS } = options;
  const error: unknown = await redisStore({ ...options, connectMs })(systemParts()).then(
    async (store) => store.close(),
    (reason: unknown) => reason,
  );
  expect(stopwatch.elapsedMs()).toBeLessThan(connectMs + 500);
  if (!isTenureError(error)) throw new Error(`expected a TenureError, got ${String(error)}`);
  return error;
}

describe.each(libraries)("through %s", (library) => {
  const locked = useServer(startRedis, { password: "secret" });
  const secure = useServer(startRedis, { tls: true });
  const pair = useServer(startRedisPair, { own: true });

  test("a wrong and a missing password are named as the cause, and the message does not contain the password", async () => {
    const url = locked().url.replace("secret", "guess");
    const wrong = await refusal({ url, library });
    expect(wrong.code).toBe("STORE_UNUSABLE");
    expect(wrong.message).toMatch(/refuses this user or password.*in the URL/);
    expect(wrong.message).not.toContain("guess");
    const none = await refusal({ url: url.replace(/:guess@/, ""), library });
    expect(none.message).toMatch(/asks for a password.*redis:\/\/user:password@host/);
    const store = await redisStore({ url: locked().url, library })(systemParts());
    await store.close();
  });

  test("a port where no server listens is named in the error", async () => {
    const free = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => free.once("listening", resolve));
    const { port } = free.address() as { port: number };
    await new Promise((resolve) => free.close(resolve));
    const url = `redis://127.0.0.1:${port}`;
    const error = await refusal({ url, library, connectMs: SILENT_MS });
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no", retryable: true });
    expect(error.message).toMatch(new RegExp(`127.0.0.1:${port}.*check host and port`));
  });

  test("the error names the URL scheme for TLS to a plain port, plain text to a TLS port and an unknown certificate", async () => {
    const { master } = pair();
    const silent = { library, connectMs: SILENT_MS };
    const toPlain = await refusal({ ...silent, url: master.url.replace("redis:", "rediss:") });
    expect(toPlain.message).toMatch(/rediss:\/\/.*redis:\/\//s);
    const toTls = await refusal({ ...silent, url: secure().url.replace("rediss:", "redis:") });
    expect(toTls.message).toMatch(/rediss:\/\//);
    const unknown = await refusal({ url: secure().url, library });
    expect(unknown.message).toMatch(/certificate.*tls: \{ ca \}/s);
    const tls = { ca: secure().ca };
    const store = await redisStore({ url: secure().url, library, tls })(systemParts());
    await store.close();
  });

  test("a database number that the server does not have is an error, and a valid one is used", async () => {
    const { url } = pair().master;
    const error = await refusal({ url: `${url}/99`, library });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(
      /\/99 does not have the database of this number.*Name another in the URL, or raise `databases`/,
    );
    const tenure = await connect(`${url}/9?library=${library}`);
    const lease = await tenure.acquire("in nine");
    const client = new Redis(url);
    onTestFinished(() => client.disconnect());
    expect(await client.info("keyspace")).toMatch(/^db9:/m);
    expect(await client.info("keyspace")).not.toMatch(/^db0:/m);
    await lease.release();
    await tenure.close();
  });

  test("a replica is rejected, and the error says that it is a replica", async () => {
    const error = await refusal({ url: pair().replica.url, library });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/read-only replica.*master/);
  });

  test("the error for a user without permission refers to the documentation", async () => {
    const { master } = pair();
    await master.command("ACL", "SETUSER", "poor", "on", ">poor", "~other:*", "&*", "+@all");
    const url = master.url.replace("://", "://poor:poor@");
    const error = await refusal({ url, library });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/does not allow.*docs\/stores\/redis\.md/);
  });

  test("the ACL in the documentation is sufficient, and settings that cannot be read count as the worse case", async () => {
    const { master } = pair();
    const acl = ["~{tenure}:*", "&{tenure}:*", "-@all", ...DOCUMENTED.split(" ")];
    await master.command("ACL", "SETUSER", "lean", "on", ">lean", ...acl);
    const url = master.url.replace("://", "://lean:lean@");
    const store = await redisStore({ url, library })(systemParts());
    onTestFinished(() => store.close());
    expect(store.guarantees.durable).toBe(false);
    expect(store.guarantees.tokenFalls).toContain("may not ask");
    const session = { sessionId: "one", limitMs: LIMIT_MS };
    const events = new RecordedEvents();
    await store.openSession({ ...session, holderId: "one", ttlMs: 60_000, events });
    const attempt = { ...session, resource: "r", attempt: "one.1" };
    const granted = await store.grant({ ...attempt, holderId: "one", queue: true });
    if (granted.kind !== "granted") throw new Error(granted.kind);
    const next = { ...attempt, attempt: "one.2", holderId: "one", queue: true };
    expect((await store.grant(next)).kind).toBe("queued");
    await store.renew({ ...session, withdrawn: [], acknowledged: [] });
    await store.release({ ...attempt, token: granted.token });
    await until("the waiter is notified", async () => events.grants.length === 1, 5_000);
    const [{ token }] = events.grants as [Grant];
    expect(await store.revoke({ resource: "r", token, limitMs: LIMIT_MS })).toEqual({
      kind: "revoked",
    });
    await until("the holder is notified", async () => events.losses.length === 1, 5_000);
    await store.list({ prefix: "", limit: 1, limitMs: LIMIT_MS });
    await store.endSession(session);
  });

  test("the first request that may be queued fails if the user may not subscribe", async () => {
    const { master } = pair();
    const acl = ["~{tenure}:*", "&{tenure}:*", "+@all", "-subscribe"];
    await master.command("ACL", "SETUSER", "deaf", "on", ">deaf", ...acl);
    const url = master.url.replace("://", "://deaf:deaf@");
    const store = await redisStore({ url, library })(systemParts());
    onTestFinished(() => store.close());
    const session = { sessionId: "deaf", holderId: "deaf", limitMs: LIMIT_MS };
    await store.openSession({ ...session, ttlMs: 60_000, events: new RecordedEvents() });
    const request = { ...session, resource: "deaf", attempt: "deaf.1" };
    const error = await store.grant({ ...request, queue: true }).catch((reason) => reason);
    expect(error).toMatchObject({ code: "STORE_UNUSABLE" });
    expect((await store.grant({ ...request, queue: false })).kind).toBe("granted");
  });

  test("connecting over a silent link fails at the limit", async () => {
    await using proxy = await startProxy(pair().master);
    proxy.cut();
    const error = await refusal({ url: proxy.url, library, connectMs: SILENT_MS });
    expect(error.message).toMatch(/connectMs|Timeout|ETIMEDOUT/);
  });

  test("requiring more replicas than the server has is rejected", async () => {
    const error = await refusal({ url: pair().master.url, library, replicas: 2 });
    expect(error.message).toMatch(/replicas: 2.*more than the 1/);
  });

  test("the settings in the URL reach the store", async () => {
    const { url } = pair().master;
    const tenure = await connect(`${url}/?prefix=elsewhere&library=${library}`);
    const { token } = await tenure.acquire("r");
    await tenure.close();
    expect(await pair().master.command("GET", "{elsewhere}:token")).toBe(String(token));
    await expect(connect(`${url}/?preffix=x`)).rejects.toThrow(/unknown setting/);
  });
});

/** Exactly as in docs/stores/redis.md. */
const DOCUMENTED =
  "+evalsha +eval +exists +del +pexpire +pttl +incr +incrby +get +mget +set +time +zadd +zrem +zcard +zrange +zrandmember +zrangebylex +zrevrangebyscore +hset +hget +hdel +hkeys +hlen +sadd +srem +smembers +publish +subscribe +unsubscribe +wait";

describe("settings", () => {
  /** A mock: answers INFO like a server of this version, and nothing else. */
  const mock = (version: string): Wire => ({
    library: "redis" as const,
    isCluster: false as const,
    send: async ([command]) =>
      command === "info" ? `redis_version:${version}\r\nrole:master` : [],
    duplicate: () => Promise.reject(new Error("mock")),
    openChannels: () => Promise.reject(new Error("mock")),
    reset: () => undefined,
    close: () => undefined,
  });

  test.each(["2.8.24", "5.0.14", "6.0.20"])("version %s (mocked) is too old", async (version) => {
    const facts = await inspect(mock(version));
    expect(() => rejectUnsuitable(facts, "db:6379")).toThrow(/version .*; Tenure needs 6.2/);
  });

  test.each(["6.2.0", "7.0.15", "10.1.0"])("version %s (mocked) is accepted", async (version) => {
    const facts = await inspect(mock(version));
    expect(() => rejectUnsuitable(facts, "db:6379")).not.toThrow();
  });

  test("risks from the server's settings appear in the guarantees and in warnings", () => {
    const facts = {
      version: "7.0.15",
      role: "master",
      isCluster: false,
      replicas: 0,
      appendonly: false,
      appendfsync: "everysec",
      saves: true,
      evicts: "allkeys-lru",
    };
    const risky = promises(facts, 0);
    expect(risky.guarantees).toMatchObject({ durable: false });
    expect(risky.guarantees.tokenFalls).toMatch(
      /clock was set back.*since the last snapshot.*allkeys-lru/,
    );
    expect(risky.warnings).toEqual([
      expect.stringMatching(/granted twice.*last snapshot.*appendfsync always/),
      expect.stringMatching(/allkeys-lru.*grant them twice.*noeviction/),
    ]);
    const safe = { ...facts, appendonly: true, appendfsync: "always", evicts: "noeviction" };
    expect(promises(safe, 0)).toMatchObject({ warnings: [], guarantees: { durable: true } });
    const everysec = promises({ ...safe, appendfsync: "everysec" }, 1).guarantees;
    expect(everysec.durable).toBe(false);
    expect(everysec.tokenFalls).toMatch(/power cut.*not among the 1/);
  });

  test("invalid options are rejected before anything is connected", () => {
    const bad: [RedisOptions, RegExp][] = [
      [{}, /either .*url.* or .*client/],
      [{ url: "http://x" }, /begins with redis:\/\//],
      [{ url: "redis://a,b" }, /several hosts.*cluster=1.*redis\+sentinel:\/\/a,b\/master/],
      [{ url: "redis://x?cluster=yes" }, /`cluster`.*1 or 0/],
      [{ url: "redis://x/3?cluster=1" }, /only database 0/],
      [{ url: "redis://:9?cluster=1" }, /host 1 is not a host name/],
      [{ url: "redis://x:70000" }, /host 1 is not a host name/],
      [{ url: "redis://%zz@x" }, /write %25/],
      [{ url: "redis+sentinel://x" }, /names the master/],
      [{ url: "redis+sentinel://x/m/zero" }, /names the master/],
      [
        { url: "redis+sentinel://x/m?sentinel-pass=y" },
        /unknown setting "sentinel-pass"\. Did you mean sentinel-password/,
      ],
      [{ url: "redis+sentinel://x/m?cluster=1" }, /cannot have cluster=1/],
      [{ url: "redis://x", prefix: "a{b}" }, /prefix/],
      [{ url: "redis://x", replicas: -1 }, /replicas/],
      [{ url: "redis://x", connectMs: 0 }, /connectMs/],
      [{ url: "redis://x?connect-ms=soon" }, /connectMs/],
      [{ client: {} as Redis, library: "redis" }, /`library` of redisStore\(\) belongs to `url`/],
    ];
    for (const [options, message] of bad) expect(() => redisStore(options)).toThrow(message);
  });

  test("clients that cannot work are rejected", async () => {
    const prefixed = new Redis({ lazyConnect: true, keyPrefix: "app:" });
    expect((await refusal({ client: prefixed })).message).toMatch(/keyPrefix "app:"/);
    const strange = { get: () => "x" } as unknown as Redis;
    expect((await refusal({ client: strange })).message).toMatch(/ioredis.*node-redis/);
  });

  test("the error for a missing library says what to install", async () => {
    for (const name of ["ioredis", "redis"]) {
      vi.doMock(name, () => {
        throw new Error(`Cannot find package ${name}`);
      });
    }
    onTestFinished(() => {
      for (const name of ["ioredis", "redis"]) vi.doUnmock(name);
    });
    await expect(loadLibrary()).rejects.toThrow(/tried ioredis, redis.*npm install ioredis/);
    await expect(loadLibrary("redis")).rejects.toThrow(/tried redis\).*npm install redis/);
  });
});
