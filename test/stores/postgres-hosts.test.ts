// Goal: a URL with several hosts leads to the one that takes writes, also after a failover, and says why when there is none.
// Method: a real primary with a standby, killed and promoted; hosts where nobody listens or nobody answers.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect } from "../../src/index.ts";
import { systemParts } from "../../src/runtime/system.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { type PostgresPair, startPostgresPair } from "../servers/postgres.ts";
import { startProxy } from "../servers/proxy.ts";
import { useServer } from "../servers/use-server.ts";
import { startStopwatch } from "../support/stopwatch.ts";

const libraries = ["pg", "postgres"] as const;

/** One URL with the addresses of all of these, in order. */
function together(...urls: readonly string[]): string {
  const [first = ""] = urls;
  const addresses = urls.map((url) => new URL(url).host).join(",");
  return first.replace(new URL(first).host, addresses);
}

describe.each(libraries)("several hosts, through %s", (library) => {
  const pair = useServer(startPostgresPair);

  test("the primary is found behind a host where nobody listens, one that says nothing, and a standby", async () => {
    const { primary, standby } = pair();
    await using silent = await startProxy(primary);
    silent.cut();
    const nobody = primary.url.replace(/:\d+\//, ":1/");
    const url = together(nobody, silent.url, standby.url, primary.url);
    const open = postgresStore({ url, library, schema: `found_${library}`, connectLimitMs: 8_000 });
    const tenure = await connect(open);
    onTestFinished(() => tenure.close());
    const lease = await tenure.acquire("r");
    expect(await primary.sql(`SELECT token FROM found_${library}.lease`)).toBe(String(lease.token));
    await lease.release();
  });

  test("where none takes writes, each is named with its reason, and in time", async () => {
    const { primary, standby } = pair();
    const nobody = primary.url.replace(/:\d+\//, ":1/");
    const stopwatch = startStopwatch();
    const open = postgresStore({
      url: together(nobody, standby.url),
      library,
      connectLimitMs: 3_000,
    });
    const error = await open(systemParts()).then(
      () => undefined,
      (reason: Error) => reason,
    );
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no" });
    expect(error?.message).toMatch(/None of the hosts.*127.0.0.1:1\/.*is a standby/);
    expect(stopwatch.elapsedMs()).toBeLessThan(6_000);
  });
});

async function hasCopied(pair: PostgresPair, schema: string): Promise<boolean> {
  const rows = await pair.standby.sql(`SELECT count(*) FROM ${schema}.lease`).catch(() => "");
  return rows === "1";
}

test.each(libraries)(
  "S1: after a failover the same Tenure goes on at the new primary, above all tokens (%s)",
  async (library) => {
    await using pair = await startPostgresPair();
    const url = together(pair.primary.url, pair.standby.url);
    const tenure = await connect(postgresStore({ url, library }));
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    const first = await tenure.acquire("r");
    await first.release();
    while (!(await hasCopied(pair, "tenure"))) await sleep(50);
    await pair.primary.kill();
    await pair.promote();
    const next = await tenure.acquire("r", { waitMs: 30_000 });
    expect(next.token).toBeGreaterThan(first.token);
    expect(next.check()).toBe(next.token);
    await next.release();
  },
  90_000,
);

test.each(libraries)(
  "S6: a lease that the standby had missed is lost with the next renewal, and the others of its session are not (%s)",
  async (library) => {
    await using pair = await startPostgresPair();
    const url = together(pair.primary.url, pair.standby.url);
    const tenure = await connect(postgresStore({ url, library }));
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    const timing = { ttlMs: 30_000, renewEveryMs: 1_000 };
    const kept = await tenure.acquire("kept", timing);
    while (!(await hasCopied(pair, "tenure"))) await sleep(50);
    await pair.standby.stop();
    const missed = await tenure.acquire("missed", timing);
    // Before the promotion: a holder may learn of its loss before pg_ctl returns.
    const lost = new Promise((resolve) => missed.signal.addEventListener("abort", resolve));
    await pair.primary.kill();
    await pair.standby.start();
    await pair.promote();
    await lost;
    expect(missed.signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    await kept.settled();
    expect(kept.check()).toBe(kept.token);
    // By its own session: it is free at the new primary.
    const next = await tenure.acquire("missed", timing);
    expect(next.token).toBeGreaterThan(missed.token);
    expect(await kept.release()).toBe("released");
  },
  90_000,
);

test.each(libraries)(
  "L1: what the standby had missed to be given back is given back once more with the next renewal (%s)",
  async (library) => {
    await using pair = await startPostgresPair();
    const url = together(pair.primary.url, pair.standby.url);
    const defaults = { ttlMs: 30_000, renewEveryMs: 500 };
    const [tenure, other] = [
      await connect(postgresStore({ url, library }), { defaults }),
      await connect(postgresStore({ url, library }), { defaults }),
    ];
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    onTestFinished(() => other.close({ drainMs: 0 }));
    // The session goes on with this one.
    const kept = await tenure.acquire("kept");
    const released = await tenure.acquire("released");
    const revoked = await tenure.acquire("revoked");
    const held = "SELECT count(*) FROM tenure.lease WHERE session IS NOT NULL";
    const copied = async (): Promise<string> => pair.standby.sql(held).catch(() => "");
    while ((await copied()) !== "3") await sleep(50);
    await pair.standby.stop();
    expect(await released.release()).toBe("released");
    const lost = new Promise((told) => revoked.signal.addEventListener("abort", told));
    expect(await other.revoke("revoked")).toMatchObject({ token: revoked.token });
    await lost;
    await pair.primary.kill();
    await pair.standby.start();
    // Before the promotion: right after it, the holders give back what the standby has missed.
    expect(await pair.standby.sql(held)).toBe("3");
    await pair.promote();
    for (const { resource, token } of [released, revoked]) {
      // Less than the session's ttl: it has not simply ended.
      const next = await other.acquire(resource, { waitMs: 20_000 });
      expect(next.token).toBeGreaterThan(token);
      await next.release();
    }
    await kept.settled();
    expect(kept.check()).toBe(kept.token);
    await kept.release();
  },
  90_000,
);

test.each([
  ["postgres://a,,b/x", /names each of them/],
  ["postgres://a,b/x?target_session_attrs=any", /only the primary can grant leases/],
])("%s is refused", async (url, message) => {
  await expect(connect(url)).rejects.toMatchObject({ code: "INVALID_ARGUMENT", message });
});
