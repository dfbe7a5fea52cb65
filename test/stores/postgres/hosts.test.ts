// Goal: a URL with several hosts leads to the host that accepts writes, also after a failover, and
// the error gives the reasons if none does. Method: a real primary with a standby that is killed
// and promoted, addresses where no server listens, and a server that never answers.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { type PostgresPair, startPostgresPair } from "../../servers/postgres.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

const libraries = ["pg", "postgres"] as const;

/** One URL with the addresses of all the given URLs, in order. */
function joinHosts(...urls: readonly string[]): string {
  const [first = ""] = urls;
  const addresses = urls.map((url) => new URL(url).host).join(",");
  return first.replace(new URL(first).host, addresses);
}

describe.each(libraries)("several hosts, through %s", (library) => {
  const pair = useServer(startPostgresPair);

  test("the primary is found after an address without a server, a silent server and a standby", async () => {
    const { primary, standby } = pair();
    await using silent = await startProxy(primary);
    silent.cut();
    const unreachable = primary.url.replace(/:\d+\//, ":1/");
    const url = joinHosts(unreachable, silent.url, standby.url, primary.url);
    const open = postgresStore({ url, library, prefix: `found_${library}`, connectMs: 8_000 });
    const tenure = await connect(open);
    onTestFinished(() => tenure.close());
    const lease = await tenure.acquire("r");
    expect(await primary.sql(`SELECT token FROM found_${library}.lease`)).toBe(String(lease.token));
    await lease.release();
  });

  test("if no host accepts writes, the error names each host with its reason, in time", async () => {
    const { primary, standby } = pair();
    const unreachable = primary.url.replace(/:\d+\//, ":1/");
    const stopwatch = startStopwatch();
    const open = postgresStore({
      url: joinHosts(unreachable, standby.url),
      library,
      connectMs: 3_000,
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
  "S1: after a failover, the same Tenure continues on the new primary, with tokens above all earlier ones (%s)",
  async (library) => {
    await using pair = await startPostgresPair();
    const url = joinHosts(pair.primary.url, pair.standby.url);
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
  "S6: the next renewal after a failover reports a lease that the standby had missed as lost, and keeps the others (%s)",
  async (library) => {
    await using pair = await startPostgresPair();
    const url = joinHosts(pair.primary.url, pair.standby.url);
    const tenure = await connect(postgresStore({ url, library }));
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    const timing = { ttlMs: 30_000, renewEveryMs: 1_000 };
    const kept = await tenure.acquire("kept", timing);
    while (!(await hasCopied(pair, "tenure"))) await sleep(50);
    await pair.standby.stop();
    const missed = await tenure.acquire("missed", timing);
    // Before the promotion: the holder may learn of its loss before pg_ctl returns.
    const lost = new Promise((resolve) => missed.signal.addEventListener("abort", resolve));
    await pair.primary.kill();
    await pair.standby.start();
    await pair.promote();
    await lost;
    expect(missed.signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    await kept.confirmed();
    expect(kept.check()).toBe(kept.token);
    // The lease is free on the new primary, so the same session can take it.
    const next = await tenure.acquire("missed", timing);
    expect(next.token).toBeGreaterThan(missed.token);
    expect(await kept.release()).toBe("released");
  },
  90_000,
);

test.each(libraries)(
  "L1: the next renewal after a failover repeats a release that the standby had missed (%s)",
  async (library) => {
    await using pair = await startPostgresPair();
    const url = joinHosts(pair.primary.url, pair.standby.url);
    const defaults = { ttlMs: 30_000, renewEveryMs: 500 };
    const [tenure, other] = [
      await connect(postgresStore({ url, library }), { defaults }),
      await connect(postgresStore({ url, library }), { defaults }),
    ];
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    onTestFinished(() => other.close({ drainMs: 0 }));
    // Keeps the session alive.
    const kept = await tenure.acquire("kept");
    const released = await tenure.acquire("released");
    const revoked = await tenure.acquire("revoked");
    const held = "SELECT count(*) FROM tenure.lease WHERE session IS NOT NULL";
    const copied = async (): Promise<string> => pair.standby.sql(held).catch(() => "");
    while ((await copied()) !== "3") await sleep(50);
    await pair.standby.stop();
    expect(await released.release()).toBe("released");
    const lost = new Promise((resolve) => revoked.signal.addEventListener("abort", resolve));
    expect(await other.revoke("revoked")).toMatchObject({ token: revoked.token });
    await lost;
    await pair.primary.kill();
    await pair.standby.start();
    // Checked before the promotion: right after it, the holders repeat the releases that the
    // standby has missed.
    expect(await pair.standby.sql(held)).toBe("3");
    await pair.promote();
    for (const { resource, token } of [released, revoked]) {
      // Shorter than the session's ttl, so the session cannot simply have expired.
      const next = await other.acquire(resource, { waitMs: 20_000 });
      expect(next.token).toBeGreaterThan(token);
      await next.release();
    }
    await kept.confirmed();
    expect(kept.check()).toBe(kept.token);
    await kept.release();
  },
  90_000,
);

test.each([
  ["postgres://a,,b/x", /names each of them/],
  ["postgres://a,b/x?target_session_attrs=any", /only the primary can grant leases/],
])("the URL %s is rejected", async (url, message) => {
  await expect(connect(url)).rejects.toMatchObject({ code: "INVALID_ARGUMENT", message });
});
