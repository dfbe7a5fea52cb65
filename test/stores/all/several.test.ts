// Goal: on every store, slots limit the number of holders, and calls for several resources in
// opposite order never wait for each other. Method: several connections to real servers; the test
// counts the holders at every moment.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { everyStore, freshName, machinesOn } from "../../support/stores/every-store.ts";

const WAIT = { waitMs: 20_000 };

describe.each(everyStore)("%s", (engine) => {
  const machine = machinesOn(engine);

  test("with two slots, two of six callers hold at a time, and every caller is served", async () => {
    const resource = freshName("gpu");
    const machines = await Promise.all(["one", "two", "three"].map((name) => machine(name)));
    let holders = 0;
    let most = 0;
    // The first holder stays until there is a second one, however slow the store is.
    let meet = (): void => undefined;
    const met = new Promise<void>((resolve) => {
      meet = resolve;
    });
    const tokens = new Set<string>();
    const call = async (index: number): Promise<void> => {
      const tenure = machines[index % machines.length];
      await tenure?.withLease(resource, { slots: 2, ...WAIT }, async (lease) => {
        holders += 1;
        most = Math.max(most, holders);
        tokens.add(`${lease.resource} ${lease.check()}`);
        if (holders === 2) meet();
        await met;
        await sleep(20);
        holders -= 1;
      });
    };
    await Promise.all([0, 1, 2, 3, 4, 5].map(call));
    expect(most).toBe(2);
    expect(tokens.size).toBe(6);
  });

  test("calls for the same two resources in opposite order take turns", async () => {
    const [a, b] = [freshName("a"), freshName("b")];
    const [one, two] = [await machine("one"), await machine("two")];
    let holders = 0;
    const work = async (): Promise<void> => {
      holders += 1;
      expect(holders).toBe(1);
      await sleep(5);
      holders -= 1;
    };
    const loop = async (tenure: typeof one, names: string[]): Promise<void> => {
      for (let round = 0; round < 5; round += 1) await tenure.withLeases(names, WAIT, work);
    };
    await Promise.all([loop(one, [a, b]), loop(two, [b, a])]);
  });
});
