// What `lease.check()` costs against one bare reading of the clock, in the same run and interleaved.

import { connect } from "tenure";
import { atMost, collectGarbage, median, type Section, spread } from "./support.ts";

const CALLS = 2_000_000;
const ROUNDS = 9;

export async function checkCost(): Promise<Section> {
  const tenure = await connect("memory:");
  const lease = await tenure.acquire("bench");
  const bare = (): number => time(() => performance.now());
  const check = (): number => time(() => lease.check());
  bare();
  check();
  const ratios: number[] = [];
  const bareNs: number[] = [];
  const checkNs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const floor = bare();
    const cost = check();
    bareNs.push(floor);
    checkNs.push(cost);
    ratios.push(cost / floor);
  }
  // A reading of either clock is a number on the heap (16 bytes on Node 20), whoever asks: that is the floor here.
  const floorBytes = bytesPerCall(() => performance.now() < 0) + bytesPerCall(() => Date.now() < 0);
  const bytes = bytesPerCall(() => lease.check());
  await tenure.close();
  return {
    title: "check()",
    method: `${ROUNDS} interleaved rounds of ${CALLS.toLocaleString("en")} calls; median, (min-max).`,
    rows: [
      { what: "bare performance.now()", measured: `${median(bareNs).toFixed(0)} ns` },
      { what: "lease.check()", measured: `${median(checkNs).toFixed(0)} ns` },
      atMost(`ratio (${spread(ratios)})`, median(ratios), 2.5, (value) => `${value.toFixed(2)}x`),
      {
        what: "allocated by bare readings of both clocks",
        measured: `${floorBytes.toFixed(1)} bytes`,
      },
      atMost(
        "allocated by check() beyond that",
        Math.max(0, bytes - floorBytes),
        0.1,
        (value) => `${value.toFixed(2)} bytes`,
      ),
    ],
  };
}

function time(call: () => unknown): number {
  const start = performance.now();
  for (let index = 0; index < CALLS; index += 1) call();
  return ((performance.now() - start) * 1e6) / CALLS;
}

/** Short enough that no collection comes in between; the smallest of several tries is free of other people's garbage. */
function bytesPerCall(call: () => unknown): number {
  const calls = 50_000;
  const tries = Array.from({ length: 7 }, () => {
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < calls; index += 1) call();
    return (process.memoryUsage().heapUsed - before) / calls;
  });
  return Math.max(0, Math.min(...tries));
}
