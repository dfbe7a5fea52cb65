// Goal: somebody who sits on SQLite's write lock costs time, never safety. Method: an outside process holds BEGIN
// IMMEDIATE, once for a second within a longer ttl, once until the lease is over; meanwhile a holder renews, another
// process asks, and a third waits.
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";
import { ms, numberOf, peek, until } from "../support/process/process-file.ts";
import { failed, puppet } from "../support/process/process-puppet.ts";

const LOCKER = new URL("./workers/locker.mjs", import.meta.url);
const processes = crew();

async function locker(file: string): Promise<Child> {
  const child = processes.start(LOCKER, { file });
  await child.heard("ready");
  return child;
}

test("L3: a write lock held for 1 s by an outsider puts a lease in doubt and loses none", async () => {
  // Renewals are due every 500 ms and may take 200, so at least one of them runs into the lock.
  const timing = { ttlMs: 2_000, renewEveryMs: 500, clockErrorMs: 20, roundTripMs: 200 };
  const file = join(processes.folder(), "tenure.db");
  const [holder, other] = [await puppet(processes, file), await puppet(processes, file)];
  const outsider = await locker(file);
  const held = await holder.acquire("settlement", timing);
  const look = peek(processes, file);
  const expiry = (): number => numberOf(look("SELECT expires_ms FROM session"));
  const before = expiry();
  await until("it has just renewed", () => expiry() > before);

  outsider.say({ do: "lock", forMs: 1_000 });
  const lockedAt = (await outsider.heard("locked")).at;
  const asked = other.acquire("another", { ...timing, waitMs: 10_000 });
  const refused = await failed(other.tryAcquire("third", timing));
  expect([refused.name, refused.applied]).toEqual(["StoreUnavailableError", "no"]);
  expect(refused.message).toContain(file);

  let doubts = 0;
  while (!outsider.told.some((told) => told.event === "unlocked")) {
    const error = await holder.check("settlement").catch((thrown: unknown) => thrown);
    if (error === held.token) continue;
    expect(String(error)).toContain("LeaseInDoubtError");
    doubts += 1;
  }
  const unlockedAt = (await outsider.heard("unlocked")).at;
  await holder.call("settled", { resource: "settlement" });
  expect(await holder.check("settlement")).toBe(held.token);
  const granted = await asked;
  expect(doubts).toBeGreaterThan(0);
  expect(granted.at).toBeGreaterThanOrEqual(unlockedAt);
  console.log(
    `      lock of ${ms(unlockedAt - lockedAt)}: the other's grant came ${ms(granted.at - unlockedAt)} after its end`,
  );
});

test("S6, S7: while an outsider keeps the write lock, the lease is lost at safeUntil, and nobody else is granted", async () => {
  const timing = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
  const file = join(processes.folder(), "tenure.db");
  const [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const outsider = await locker(file);
  const held = await holder.acquire("settlement", timing);
  const taken = waiter.acquire("settlement", { ...timing, waitMs: 30_000 });
  const look = peek(processes, file);
  await until("it waits", () => numberOf(look("SELECT count(*) FROM waiter")) === 1);

  outsider.say({ do: "lock" });
  const lockedAt = (await outsider.heard("locked")).at;
  const lost = await holder.lost(held);
  const error = await failed(holder.check("settlement"));
  expect([error.name, error.reason]).toEqual(["LeaseLostError", "expired"]);
  expect(error.cause?.code).toBe("STORE_UNAVAILABLE");
  // In time: not later than a ttl after the last renewal that can have succeeded, which came before the lock.
  expect(lost.at - lockedAt).toBeLessThanOrEqual(timing.ttlMs);
  expect(numberOf(look("SELECT token FROM lease WHERE resource = 'settlement'"))).toBe(
    Number(held.token),
  );
  outsider.say({ do: "unlock" });
  const unlocked = await outsider.heard("unlocked");
  const next = await taken;
  expect(next.token).toBeGreaterThan(held.token);
  expect(next.at).toBeGreaterThan(unlocked.at);
  expect(next.at).toBeGreaterThan(lost.at);
  console.log(
    `      lost ${ms(lost.at - lockedAt)} after the lock began; the waiter held ${ms(next.at - unlocked.at)} after it ended`,
  );
});
