// Goal: the stopwatch of the tests counts waiting, and does not count the time in which this
// process could not run. Method: a real timer, and a loop that blocks the process.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startStopwatch } from "../support/stores/stopwatch.ts";

test("waiting counts", async () => {
  const [stopwatch, startedAt] = [startStopwatch(), performance.now()];
  await sleep(300);
  const wall = performance.now() - startedAt;
  expect(stopwatch.elapsedMs()).toBeGreaterThan(100);
  expect(stopwatch.elapsedMs()).toBeLessThanOrEqual(wall + 15);
});

test("time in which the process did not run counts as one tick", () => {
  const stopwatch = startStopwatch();
  const until = performance.now() + 300;
  while (performance.now() < until);
  expect(stopwatch.elapsedMs()).toBeLessThanOrEqual(15);
});
