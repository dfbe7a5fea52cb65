// Goal: a process that keeps SQLite's write lock delays other processes but never breaks safety.
// Method: a process that does not use Tenure keeps a BEGIN IMMEDIATE transaction open while a
// holder renews and another process acquires or waits. One test keeps it for a second of a longer
// ttl, the other until the lease has ended.
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";
import { ms, numberOf, peek, until } from "../support/process/process-file.ts";
import { failed, puppet } from "../support/process/process-puppet.ts";

const LOCKER = new URL("./workers/locker.mjs", import.meta.url);
const processes = crew();

async function startLocker(file: string): Promise<Child> {
  const child = processes.start(LOCKER, { file });
  await child.heard("ready");
  return child;
}

test("L3: a write lock that another process holds for 1 s puts a lease in doubt, but no lease is lost", async () => {
  // Renewals are due every 500 ms and may take 200 ms, so at least one of them hits the lock.
  const timing = { ttlMs: 2_000, renewEveryMs: 500, clockErrorMs: 20, roundTripMs: 200 };
  const file = join(processes.folder(), "tenure.db");
  const [holder, other] = [await puppet(processes, file), await puppet(processes, file)];
  const locker = await startLocker(file);
  const held = await holder.acquire("settlement", timing);
  const query = peek(processes, file);
  const expiry = (): number => numberOf(query("SELECT expires_ms FROM session"));
  const before = expiry();
  await until("the holder has just renewed", () => expiry() > before);

  locker.say({ do: "lock", forMs: 1_000 });
  const lockedAt = (await locker.heard("locked")).at;
  const requested = other.acquire("another", { ...timing, waitMs: 10_000 });
  const refused = await failed(other.tryAcquire("third", timing));
  expect([refused.name, refused.applied]).toEqual(["StoreUnavailableError", "no"]);
  expect(refused.message).toContain(file);

  let doubts = 0;
  while (!locker.told.some((told) => told.event === "unlocked")) {
    const error = await holder.check("settlement").catch((thrown: unknown) => thrown);
    if (error === held.token) continue;
    expect(String(error)).toContain("LeaseInDoubtError");
    doubts += 1;
  }
  const unlockedAt = (await locker.heard("unlocked")).at;
  await holder.call("confirm", { resource: "settlement" });
  expect(await holder.check("settlement")).toBe(held.token);
  const granted = await requested;
  expect(doubts).toBeGreaterThan(0);
  expect(granted.at).toBeGreaterThanOrEqual(unlockedAt);
  console.log(
    `      lock held for ${ms(unlockedAt - lockedAt)}; the other process was granted ${ms(granted.at - unlockedAt)} after its end`,
  );
});

test("S6, S7: while another process keeps the write lock, the lease is lost at safeUntil and not granted again", async () => {
  const timing = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
  const file = join(processes.folder(), "tenure.db");
  const [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const locker = await startLocker(file);
  const held = await holder.acquire("settlement", timing);
  const taken = waiter.acquire("settlement", { ...timing, waitMs: 30_000 });
  const query = peek(processes, file);
  await until("a waiter is queued", () => numberOf(query("SELECT count(*) FROM waiter")) === 1);

  locker.say({ do: "lock" });
  const lockedAt = (await locker.heard("locked")).at;
  const lost = await holder.lost(held);
  const error = await failed(holder.check("settlement"));
  expect([error.name, error.reason]).toEqual(["LeaseLostError", "expired"]);
  expect(error.cause?.code).toBe("STORE_UNAVAILABLE");
  // The last renewal that can have succeeded was before the lock, and the lease ends at most one
  // ttl after it.
  expect(lost.at - lockedAt).toBeLessThanOrEqual(timing.ttlMs);
  expect(numberOf(query("SELECT token FROM lease WHERE resource = 'settlement'"))).toBe(
    Number(held.token),
  );
  locker.say({ do: "unlock" });
  const unlocked = await locker.heard("unlocked");
  const next = await taken;
  expect(next.token).toBeGreaterThan(held.token);
  expect(next.at).toBeGreaterThan(unlocked.at);
  expect(next.at).toBeGreaterThan(lost.at);
  console.log(
    `      lost ${ms(lost.at - lockedAt)} after the lock began; the waiter was granted ${ms(next.at - unlocked.at)} after it ended`,
  );
});
