// Goal: former holders do not slow down the current one at a service that httpGuard() protects.
// Method: service, former holders and holder are separate processes; the guard answers after 4 to
// 12 ms. Quiet and disturbed slices of 100 requests alternate. Other work on the machine can only
// make a slice slower, so the test compares the smallest p99 of each kind, and adds slices on a
// busy machine.
import { expect, test } from "vitest";
import { type HolderSetup, type HolderTimes, measureHolder } from "../../bench/http-guard.ts";
import { quantile } from "../../bench/statistics.ts";
import { ms } from "../support/process/process-file.ts";

const SLICES_MIN = 3;
const SLICES_MAX = 20;
const TIMES_MAX = 2;

function smallestP99(slices: HolderTimes["quiet"]): number {
  return Math.min(...slices.map((values) => quantile(values, 0.99)));
}

function ratioOf({ quiet, disturbed }: HolderTimes): number {
  return smallestP99(disturbed) / smallestP99(quiet);
}

async function p99Beside(former: HolderSetup["former"]): Promise<number> {
  const isEnough = (times: HolderTimes): boolean =>
    times.quiet.length >= SLICES_MIN && ratioOf(times) <= TIMES_MAX;
  const times = await measureHolder({
    former,
    slices: SLICES_MAX,
    requestsPerSlice: 100,
    isEnough,
  });
  const { quiet, disturbed } = times;
  console.log(
    `      p99 quiet ${ms(smallestP99(quiet))}, ${former} ${ms(smallestP99(disturbed))}, ${quiet.length} slices each`,
  );
  return ratioOf(times);
}

test("beside 40 stale clients in a loop, the p99 of the holder is at most twice its quiet value", async () => {
  expect(await p99Beside("stale clients")).toBeLessThanOrEqual(TIMES_MAX);
});

test("beside a former holder that does not read its response, the p99 of the holder is at most twice its quiet value", async () => {
  expect(await p99Beside("unread response")).toBeLessThanOrEqual(TIMES_MAX);
});
