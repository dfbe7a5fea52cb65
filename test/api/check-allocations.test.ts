// Goal: lease.check() allocates no memory, so a program can call it before every act. Method:
// compare the heap before and after many calls. The smallest of several measurements counts,
// because unrelated garbage can only add to it.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { connect } from "../../src/index.ts";

const CALLS = 50_000;
const TRIES = 7;
/**
 * Size of a number that is not a small integer on the heap of a 64-bit V8. A reading of a clock is
 * such a number, unless V8 optimises it away.
 */
const NUMBER_BYTES = 16;

test("check() allocates nothing beyond the two numbers that it reads", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const bytesPerCall = (call: () => unknown): number => {
    const tries = Array.from({ length: TRIES }, () => {
      collectGarbage();
      const before = process.memoryUsage().heapUsed;
      for (let index = 0; index < CALLS; index += 1) call();
      return (process.memoryUsage().heapUsed - before) / CALLS;
    });
    return Math.min(...tries);
  };
  const tenure = await connect("memory:");
  const lease = await tenure.acquire("r");
  // Warm up, because the compiler allocates too.
  for (let index = 0; index < 1_000_000; index += 1) lease.check();
  const check = bytesPerCall(() => lease.check());
  await tenure.close();
  // One object per call would add at least 16 bytes.
  expect(check).toBeLessThan(2 * NUMBER_BYTES + 8);
});
