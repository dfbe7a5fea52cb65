// Goal: a redis+sentinel: URL leads to the master, before and after a failover, and tokens increase
// even if a failover loses grants. Method: a real master, replica and Sentinel. The master is
// killed, in one test after the replica has missed writes.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect, type Tenure } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { until } from "../../servers/ask.ts";
import { type RedisSentinel, startRedisSentinel } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

function buildUrl({ sentinel, masterName }: RedisSentinel, query = ""): string {
  // The first Sentinel is down: one that answers is enough.
  return `redis+sentinel://127.0.0.1:1,${sentinel.host}:${sentinel.port}/${masterName}${query}`;
}

async function holder(url: string): Promise<Tenure> {
  const tenure = await connect(url);
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  return tenure;
}

describe("a Sentinel", () => {
  const redis = useServer(startRedisSentinel, { own: true });

  test("the store finds the master and works there, including waiters", async () => {
    const url = buildUrl(redis(), "?prefix=found");
    const [one, two] = [await holder(url), await holder(url)];
    const lease = await one.acquire("r");
    expect(await redis().master.command("GET", "{found}:token")).toBe(String(lease.token));
    const waiting = two.acquire("r", { waitMs: 20_000 });
    await sleep(100);
    await lease.release();
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    await next.release();
  });

  test("an unknown master name and unreachable Sentinels are named in the error, in time", async () => {
    const { sentinel } = redis();
    for (const url of [
      `redis+sentinel://${sentinel.host}:${sentinel.port}/nobody`,
      "redis+sentinel://127.0.0.1:1,127.0.0.1:2/mymaster",
    ]) {
      const stopwatch = startStopwatch();
      const open = redisStore({ url, connectMs: 3_000 });
      await expect(open(systemParts())).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/None of the Sentinels at 127.0.0.1.*name of the master/),
      });
      expect(stopwatch.elapsedMs()).toBeLessThan(5_000);
    }
  });

  test("the error for node-redis says which library to use", async () => {
    await expect(connect(buildUrl(redis(), "?library=redis"))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("library=ioredis"),
    });
  });
});

describe("a failover", () => {
  test("S1: when the master dies, the store continues on the replica, and tokens keep increasing", async () => {
    await using redis = await startRedisSentinel({ own: true });
    const tenure = await holder(buildUrl(redis));
    const before = await tenure.acquire("r");
    await before.release();
    const isCopied = async (): Promise<boolean> =>
      (await redis.replica.command("GET", "{tenure}:token")) === String(before.token);
    await until("the replica has the token", isCopied, 5_000);
    await redis.master.kill();
    const after = await tenure.acquire("r", { waitMs: 40_000 });
    expect(after.token).toBeGreaterThan(before.token);
    expect(String(await redis.replica.command("INFO", "replication"))).toContain("role:master");
    await after.release();
  }, 60_000);

  test("S1: after a failover to a replica that missed grants, tokens keep increasing, and a lease that it missed is revoked", async () => {
    await using redis = await startRedisSentinel({ own: true });
    // The session must survive the failover.
    const tenure = await connect(buildUrl(redis), {
      defaults: { ttlMs: 50_000, renewEveryMs: 500 },
    });
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    const first = await tenure.acquire("r");
    await first.release();
    const kept = await tenure.acquire("kept");
    const isCopied = async (): Promise<boolean> =>
      (await redis.replica.command("GET", "{tenure}:token")) === String(kept.token);
    await until("the replica has the first tokens", isCopied, 5_000);
    // From now on the master rejects the replica, which misses what the master grants on
    // connections that are already open.
    await redis.master.commands([
      ["CONFIG", "SET", "requirepass", "changed"],
      ["CLIENT", "KILL", "TYPE", "replica"],
    ]);
    let highest = first.token;
    for (let round = 0; round < 3; round += 1) {
      const lease = await tenure.acquire("r");
      highest = lease.token;
      await lease.release();
    }
    const missed = await tenure.acquire("missed");
    expect(missed.token).toBeGreaterThan(highest);
    const ended = new Promise((resolve) => missed.signal.addEventListener("abort", resolve));
    await redis.master.kill();
    await ended;
    expect(missed.signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    const next = await tenure.acquire("r", { waitMs: 40_000 });
    expect(next.token).toBeGreaterThan(missed.token);
    // A lease that the replica did not miss is kept.
    expect(await kept.release()).toBe("released");
  }, 60_000);
});
