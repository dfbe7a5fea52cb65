// A fault that every store on a server must survive: requests reach the server, replies are lost.
import { expect } from "vitest";
import type { Tenure } from "../../../src/index.ts";
import { until } from "../../servers/ask.ts";
import type { TcpProxy } from "../../servers/proxy.ts";

/** The error that the call failed with, or a sentence saying that it succeeded. */
export async function reasonOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    (value) => `resolved with ${String(value)}`,
    (error: unknown) => error,
  );
}

/** Whether a grant succeeds again. */
export async function canAcquire(tenure: Tenure): Promise<boolean> {
  const lease = await tenure.tryAcquire("back").catch(() => undefined);
  await lease?.release();
  return lease !== undefined;
}

/**
 * `first` reaches the server through the proxy, `second` directly. A grant whose reply was lost
 * neither blocks the resource forever nor repeats a token (S1, S4).
 */
export async function expectLostRepliesHarmless(
  proxy: TcpProxy,
  first: Tenure,
  second: Tenure,
): Promise<void> {
  const kept = await first.acquire("kept");
  const { connections } = proxy.counts();
  proxy.cut("replies");
  expect(await reasonOf(first.tryAcquire("r"))).toMatchObject({ code: "STORE_UNAVAILABLE" });
  // A connection on which nothing comes back is given up, long before TCP would.
  const isAnew = async (): Promise<boolean> => proxy.counts().connections > connections;
  await until("a new connection is tried", isAnew, 3_000);
  await proxy.heal();
  const lease = await second.acquire("r", { waitMs: 10_000 });
  expect(lease.token).toBeGreaterThan(kept.token);
  await lease.release();
  await until("the first is back", async () => canAcquire(first), 10_000);
  const again = await first.acquire("r", { waitMs: 10_000 });
  expect(again.token).toBeGreaterThan(lease.token);
}
