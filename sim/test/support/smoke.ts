// The smoke test of the simulator: seeds that must pass and be repeatable. It is split into small
// tests, so that progress is visible on a slow machine.
import { describe, expect, test } from "vitest";
import { simHost } from "../../host/sim-host.ts";
import { runSwarm } from "../../swarm.ts";

/** Few enough to stay within the time limit of a test on a busy machine. */
const SEEDS_EACH = 5;
/**
 * Stale writes of a stopped holder per run: one in five on memory, one in 25 where takeovers are
 * slowest.
 */
const OWN_SHARE = { memory: 0.2, others: 0.04 };

export function smoke(store: string, seeds: { readonly from: number; readonly to: number }): void {
  const count = seeds.to - seeds.from + 1;
  const parts = Array.from({ length: count / SEEDS_EACH }, (_, part) => {
    const from = seeds.from + part * SEEDS_EACH;
    return { from, to: from + SEEDS_EACH - 1 };
  });
  describe(`on ${store}`, () => {
    let [staleWrites, ownStaleWrites] = [0, 0];

    test.each(parts)("seeds $from to $to break no invariant and are repeatable", async (range) => {
      const options = { ...range, store, host: simHost, failFast: false, twice: true };
      const summary = await runSwarm(options);
      expect(summary.findings).toEqual([]);
      expect(summary.seeds).toBe(SEEDS_EACH);
      expect(summary.faultsMin).toBeGreaterThanOrEqual(100);
      expect(summary.kinds.size).toBeGreaterThanOrEqual(8);
      staleWrites += summary.staleWrites;
      ownStaleWrites += summary.ownStaleWrites;
    });

    test("stale writes reach the guards often enough", () => {
      expect(staleWrites).toBeGreaterThanOrEqual(count);
      const share = store === "memory" ? OWN_SHARE.memory : OWN_SHARE.others;
      expect(ownStaleWrites).toBeGreaterThanOrEqual(count * share);
    });
  });
}
