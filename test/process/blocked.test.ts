// Goal: a process that blocked its event loop past the end of its lease learns this at its next
// check(). Method: a worker blocks its event loop until the lease has ended and calls check() in
// the same turn, before any timer or signal can run.
import { join } from "node:path";
import { expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { numberOf, peek, until } from "../support/process/process-file.ts";
import { type Failure, puppet } from "../support/process/process-puppet.ts";

const TIMING = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
const processes = crew();

test("S6: the first check() after an event loop that was blocked past safeUntil throws, before any timer runs", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const first = await holder.acquire("settlement", TIMING);
  const taken = waiter.acquire("settlement", { ...TIMING, waitMs: 30_000 });
  const query = peek(processes, file);
  await until("a waiter is queued", () => numberOf(query("SELECT count(*) FROM waiter")) === 1);
  const verdict = await holder.call("blockPastEnd", { resource: "settlement" });
  const error = verdict.error as Failure | undefined;
  expect([error?.name, error?.code, error?.reason]).toEqual([
    "LeaseLostError",
    "LEASE_LOST",
    "expired",
  ]);
  expect([verdict.timerRan, verdict.abortedBefore, verdict.abortedAfter]).toEqual([
    false,
    false,
    true,
  ]);
  expect((await taken).token).toBeGreaterThan(first.token);
});

test("S1: the process that was blocked can acquire again, with a token above its successor's", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const first = await holder.acquire("settlement", TIMING);
  const taken = waiter.acquire("settlement", { ...TIMING, waitMs: 30_000 });
  await holder.call("blockPastEnd", { resource: "settlement" });
  const second = await taken;
  await waiter.release("settlement");
  const third = await holder.acquire("settlement", TIMING);
  expect([second.token > first.token, third.token > second.token]).toEqual([true, true]);
  expect(await holder.check("settlement")).toBe(third.token);
});
