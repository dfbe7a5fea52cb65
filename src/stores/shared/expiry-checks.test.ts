// Goal: a resource is checked when asked for, once per plan, again as long as the check asks for
// it, also after a failure, and never after close. Method: a manual clock.

import { expect, test } from "vitest";
import { ManualClock } from "../../testing/manual-clock.ts";
import { ExpiryChecks } from "./expiry-checks.ts";

test("a check runs when its time comes, and again as long as it asks for it", async () => {
  const clock = new ManualClock();
  const seen: number[] = [];
  const answers = [40, undefined];
  const checks = new ExpiryChecks(clock, async () => {
    seen.push(clock.now());
    return answers.shift();
  });
  const start = clock.now();
  checks.checkIn("r", 500);
  checks.checkIn("r", 100);
  await clock.advance(1_000);
  expect(seen.map((at) => at - start)).toEqual([100, 140]);
  expect(clock.timers).toBe(0);
});

test("a failed check is repeated, and close() cancels every check", async () => {
  const clock = new ManualClock();
  let runs = 0;
  const checks = new ExpiryChecks(clock, async () => {
    runs += 1;
    throw new Error("unavailable");
  });
  checks.checkIn("a", 0);
  checks.checkIn("b", 5_000);
  await clock.advance(60);
  expect(runs).toBe(2);
  checks.close();
  checks.checkIn("a", 0);
  await clock.advance(10_000);
  expect(runs).toBe(2);
  expect(clock.timers).toBe(0);
});
