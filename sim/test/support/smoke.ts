// The smoke test of the simulator: seeds that must pass. The first of them run twice and must give
// the same trace. It is split into small tests, so that progress is visible on a slow machine.
import { describe, expect, test } from "vitest";
import { simHost } from "../../host/sim-host.ts";
import { runSwarm } from "../../swarm.ts";

/** Few enough to stay within the time limit of a test on a busy machine. */
const SEEDS_EACH = 5;
/** This many seeds run twice. */
const REPEATED = 10;
/**
 * Stale writes of a stopped holder per run: one in five on memory, one in 25 where takeovers are
 * slowest.
 */
const OWN_SHARE = { memory: 0.2, others: 0.04 };

export function smoke(store: string, seeds: { readonly from: number; readonly to: number }): void {
  const count = seeds.to - seeds.from + 1;
  const parts = Array.from({ length: count / SEEDS_EACH }, (_, part) => {
    const from = seeds.from + part * SEEDS_EACH;
    const twice = part * SEEDS_EACH < REPEATED;
    const title = `break no invariant${twice ? " and are repeatable" : ""}`;
    return { from, to: from + SEEDS_EACH - 1, twice, title };
  });
  describe(`on ${store}`, () => {
    let [staleWrites, ownStaleWrites] = [0, 0];

    test.each(parts)("seeds $from to $to $title", async ({ from, to, twice }) => {
      const options = { from, to, store, host: simHost, failFast: false, twice };
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
