// A part of the simulator's smoke: seeds that must be green and the same twice. In parts, so that a slow machine shows how far it
// got; in two files with as much work each, so that both cores of a small machine have one.
import { describe, expect, test } from "vitest";
import { simHost } from "../../src/runtime/sim-host.ts";
import { runSwarm } from "../../src/sim/swarm.ts";

const SEEDS_EACH = 25;
const OWN_MIN = 5;

export function smoke(store: string, seeds: { readonly from: number; readonly to: number }): void {
  const parts = Array.from({ length: (seeds.to - seeds.from + 1) / SEEDS_EACH }, (_, part) => {
    const from = seeds.from + part * SEEDS_EACH;
    return { from, to: from + SEEDS_EACH - 1 };
  });
  describe(`on ${store}`, () => {
    test.each(parts)("seeds $from to $to break no invariant, twice the same", async (range) => {
      const options = { ...range, store, host: simHost, failFast: false, twice: true };
      const summary = await runSwarm(options);
      expect(summary.findings).toEqual([]);
      expect(summary.seeds).toBe(SEEDS_EACH);
      expect(summary.faultsMin).toBeGreaterThanOrEqual(100);
      expect(summary.kinds.size).toBeGreaterThanOrEqual(8);
      expect(summary.staleWrites).toBeGreaterThanOrEqual(SEEDS_EACH);
      // On one day in three on memory, on one in ten where takeovers are slowest: what guards are there for comes to pass.
      expect(summary.ownStaleWrites).toBeGreaterThanOrEqual(store === "memory" ? OWN_MIN : 1);
    });
  });
}
