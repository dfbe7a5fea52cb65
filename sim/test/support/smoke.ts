// A part of the simulator's smoke: seeds that must be green and the same twice. In parts, so that a slow machine shows how far it
// got; in two files with as much work each, so that both cores of a small machine have one.
import { describe, expect, test } from "vitest";
import { simHost } from "../../host/sim-host.ts";
import { runSwarm } from "../../swarm.ts";

/** Few, because a test may take only so long, and this one computes all the time: a busy machine may give it a tenth of a core. */
const SEEDS_EACH = 5;
/** One day in five on memory, one in twenty-five where takeovers are slowest. */
const OWN_SHARE = { memory: 0.2, others: 0.04 };

export function smoke(store: string, seeds: { readonly from: number; readonly to: number }): void {
  const count = seeds.to - seeds.from + 1;
  const parts = Array.from({ length: count / SEEDS_EACH }, (_, part) => {
    const from = seeds.from + part * SEEDS_EACH;
    return { from, to: from + SEEDS_EACH - 1 };
  });
  describe(`on ${store}`, () => {
    let [staleWrites, ownStaleWrites] = [0, 0];

    test.each(parts)("seeds $from to $to break no invariant, twice the same", async (range) => {
      const options = { ...range, store, host: simHost, failFast: false, twice: true };
      const summary = await runSwarm(options);
      expect(summary.findings).toEqual([]);
      expect(summary.seeds).toBe(SEEDS_EACH);
      expect(summary.faultsMin).toBeGreaterThanOrEqual(100);
      expect(summary.kinds.size).toBeGreaterThanOrEqual(8);
      staleWrites += summary.staleWrites;
      ownStaleWrites += summary.ownStaleWrites;
    });

    test("what guards are there for happens often enough", () => {
      expect(staleWrites).toBeGreaterThanOrEqual(count);
      const share = store === "memory" ? OWN_SHARE.memory : OWN_SHARE.others;
      expect(ownStaleWrites).toBeGreaterThanOrEqual(count * share);
    });
  });
}
