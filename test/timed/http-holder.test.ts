// Goal: former holders do not slow down the current holder at a service behind httpGuard(). Method:
// the service, the former holders and the holder are separate processes, and the guard answers
// after 4 to 12 ms. Slices of 100 requests are measured alternately with and without former
// holders. Other work on the machine can only make a slice slower, so the smallest p99 of each kind
// says most about the guard, and a busy machine needs more slices to reach it.
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

function computeRatio({ quiet, disturbed }: HolderTimes): number {
  return smallestP99(disturbed) / smallestP99(quiet);
}

async function measureP99Ratio(former: HolderSetup["former"]): Promise<number> {
  const isEnough = (times: HolderTimes): boolean =>
    times.quiet.length >= SLICES_MIN && computeRatio(times) <= TIMES_MAX;
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
  return computeRatio(times);
}

test("with 40 stale clients in a loop, the holder's p99 is at most twice its undisturbed value", async () => {
  expect(await measureP99Ratio("stale clients")).toBeLessThanOrEqual(TIMES_MAX);
});

test("with a former holder that does not read its response, the holder's p99 is at most twice its undisturbed value", async () => {
  expect(await measureP99Ratio("unread response")).toBeLessThanOrEqual(TIMES_MAX);
});
