// Goal: a release reaches the next process within milliseconds, and waiting costs almost nothing.
// Method: two processes pass one lease back and forth, each releasing only when the other is
// queued; and four processes wait for a lease that is never released while their CPU time is
// measured.
import { join } from "node:path";
import { expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { hostMs, ms, numberOf, peek, percentile, until } from "../support/process/process-file.ts";
import { puppet } from "../support/process/process-puppet.ts";

const HANDOVERS = 100;
const WAITERS = 4;
const IDLE_MS = 3_000;
const OPTIONS = { ttlMs: 10_000, waitMs: 60_000 };
const processes = crew();

test("L2, L4: a waiter in another process holds within milliseconds after a release, with a larger token", async () => {
  const file = join(processes.folder(), "tenure.db");
  let [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const query = peek(processes, file);
  let { token } = await holder.acquire("settlement", OPTIONS);
  const gaps: number[] = [];
  for (let index = 0; index < HANDOVERS; index += 1) {
    const taken = waiter.acquire("settlement", OPTIONS);
    await until("it waits", () => numberOf(query("SELECT count(*) FROM waiter")) === 1);
    const released = await holder.release("settlement");
    const held = await taken;
    expect(released.result).toBe("released");
    expect(held.token).toBeGreaterThan(token);
    expect(held.at).toBeGreaterThan(released.startedAt);
    gaps.push(held.at - released.startedAt);
    token = held.token;
    [holder, waiter] = [waiter, holder];
  }
  const [p50, p99] = [percentile(gaps, 0.5), percentile(gaps, 0.99)];
  console.log(
    `      ${HANDOVERS} handovers, from the call of release() to the next grant: ` +
      `p50 ${ms(p50)}, p99 ${ms(p99)}, longest ${ms(Math.max(...gaps))}`,
  );
  // A wide bound, because other work may share this machine. The benchmark has the target (p99 <=
  // 25 ms).
  expect(p50).toBeLessThanOrEqual(25);
});

test("L2: a release right after the waiter's own renewal is noticed at once", async () => {
  // The waiter's own commits make it check for a change that is not there. The next change must
  // still be noticed at once.
  const timing = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100, waitMs: 60_000 };
  const file = join(processes.folder(), "tenure.db");
  const [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const query = peek(processes, file);
  const renewedUntil = (): number =>
    numberOf(query(`SELECT expires_ms FROM session WHERE ttl_ms = ${timing.ttlMs}`));
  const gaps: number[] = [];
  for (let index = 0; index < 8; index += 1) {
    await holder.acquire("settlement", OPTIONS);
    const taken = waiter.acquire("settlement", timing);
    await until("it waits", () => numberOf(query("SELECT count(*) FROM waiter")) === 1);
    const before = renewedUntil();
    await until("it has just renewed", () => renewedUntil() > before);
    // The moment under test: long after a check, and long before the next renewal.
    await new Promise((resolve) => setTimeout(resolve, 75));
    const released = await holder.release("settlement");
    gaps.push((await taken).at - released.startedAt);
    await waiter.release("settlement");
  }
  console.log(`      75 ms after the waiter's renewal: p50 ${ms(percentile(gaps, 0.5))}`);
  expect(percentile(gaps, 0.5)).toBeLessThanOrEqual(25);
});

test("a process that waits for a busy resource uses almost no CPU time", async () => {
  const file = join(processes.folder(), "tenure.db");
  const holder = await puppet(processes, file);
  await holder.acquire("settlement", OPTIONS);
  const waiters = await Promise.all(Array.from({ length: WAITERS }, () => puppet(processes, file)));
  for (const waiter of waiters) waiter.acquire("settlement", OPTIONS).catch(() => undefined);
  const query = peek(processes, file);
  await until("all wait", () => numberOf(query("SELECT count(*) FROM waiter")) === WAITERS);
  const before = await Promise.all(waiters.map((waiter) => waiter.cpuMs()));
  const startedAt = hostMs();
  // A period in which nothing happens.
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  const after = await Promise.all(waiters.map((waiter) => waiter.cpuMs()));
  const tookMs = hostMs() - startedAt;
  const shares = after.map((cpuMs, index) => (cpuMs - (before[index] ?? 0)) / tookMs);
  const shown = shares.map((share) => `${(100 * share).toFixed(2)} %`).join(", ");
  console.log(
    `      ${WAITERS} idle waiters for ${(tookMs / 1000).toFixed(1)} s use of one core: ${shown}`,
  );
  // A wide bound for the same reason; the target is 0.5 %.
  expect(Math.max(...shares)).toBeLessThan(0.02);
});
