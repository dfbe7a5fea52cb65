// Goal: lease.check() costs no memory, so that it can stand before every act. Method: the heap before and behind many calls,
// against a bare reading of the two clocks; the smallest of some tries, since others' garbage can only add.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { connect } from "../src/index.ts";

const CALLS = 50_000;
const TRIES = 7;

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
  // Compiled first: the compiler allocates as well.
  for (let index = 0; index < 1_000_000; index += 1) lease.check();
  const floor = bytesPerCall(() => performance.now() < 0) + bytesPerCall(() => Date.now() < 0);
  const check = bytesPerCall(() => lease.check());
  await tenure.close();
  // One object a call would be 16 bytes at the least.
  expect(check - floor).toBeLessThan(8);
});
