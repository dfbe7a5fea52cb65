// Goal: lease.check() costs no memory, so that it can stand before every act. Method: the heap
// before and behind many calls; the smallest of some tries, since others' garbage can only add.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { connect } from "../../src/index.ts";

const CALLS = 50_000;
const TRIES = 7;
/**
 * A number that is no small integer, on the heap of a 64-bit V8; so are the readings of clocks
 * where it does not avoid that.
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
  // Compiled first: the compiler allocates as well.
  for (let index = 0; index < 1_000_000; index += 1) lease.check();
  const check = bytesPerCall(() => lease.check());
  await tenure.close();
  // One object a call would be 16 bytes more at the least.
  expect(check).toBeLessThan(2 * NUMBER_BYTES + 8);
});
