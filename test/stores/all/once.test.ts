// Goal: on every store, an occurrence runs once, whether machines ask concurrently, late, or after
// the runner has gone; the next occurrence runs however soon it comes; and a window that the store
// cannot remember is rejected. Method: several connections to one real server, each with its own
// session, like several machines.
import { describe, expect, test } from "vitest";
import type { Tenure } from "../../../src/tenure.ts";
import { everyStore, freshName, machinesOn } from "../../support/stores/every-store.ts";

describe.each(everyStore)("%s", (engine) => {
  const machine = machinesOn(engine);

  test("one of four machines runs an occurrence; a late machine finds it taken, even after the runner has closed", async () => {
    const key = freshName("once");
    const atMs = Date.now();
    const machines = await Promise.all(["a", "b", "c", "d"].map(machine));
    const fire = (tenure: Tenure) => tenure.once(key, { atMs }, (lease) => lease.check());
    const results = await Promise.all(machines.map(fire));
    const ran = results.filter((result) => result.ran);
    expect(ran).toHaveLength(1);
    const runner = machines[results.findIndex((result) => result.ran)] as Tenure;
    const taken = { ran: false, reason: "taken", by: runner.holderId };
    expect(results.filter((result) => !result.ran)).toEqual(Array(3).fill(taken));
    expect(ran[0]).toMatchObject({ value: (ran[0] as { token: bigint }).token });
    await runner.close();
    expect(await fire(await machine("late"))).toEqual(taken);
  });

  test("occurrences that come faster than they are forgotten each run once, with increasing tokens", async () => {
    const key = freshName("once");
    const begin = Date.now();
    const [one, two] = [await machine("one"), await machine("two")];
    const tokens: bigint[] = [];
    for (let number = 0; number < 4; number += 1) {
      const fire = { atMs: begin + number };
      const results = await Promise.all(
        [one, two].map((tenure) => tenure.once(key, fire, () => number)),
      );
      const [ran, ...more] = results.flatMap((result) => (result.ran ? [result.token] : []));
      expect(more).toEqual([]);
      tokens.push(ran as bigint);
    }
    expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(4);
  });

  test("a window has one run, and another after it ends by the store's clock", async () => {
    const key = freshName("once");
    const [one, two] = [await machine("one"), await machine("two")];
    const period = { everyMs: 5_000 };
    expect(await one.oncePer(key, period, () => 1)).toMatchObject({ ran: true });
    await one.close();
    expect(await two.oncePer(key, period, () => 2)).toMatchObject({ reason: "taken", by: "one" });
    await expect
      .poll(async () => (await two.oncePer(key, period, () => 2)).ran, {
        timeout: 25_000,
        interval: 200,
      })
      .toBe(true);
  });

  test("a window of one day is remembered, or rejected before anything runs where sessions are shorter", async () => {
    const key = freshName("once");
    const tenure = await machine("one");
    let runs = 0;
    const asked = tenure.oncePer(key, { everyMs: 86_400_000 }, () => {
      runs += 1;
    });
    if (engine !== "zookeeper") return void expect(await asked).toMatchObject({ ran: true });
    await expect(asked).rejects.toMatchObject({
      code: "STORE_UNUSABLE",
      message: expect.stringMatching(/at most \d+ ms/),
    });
    expect(runs).toBe(0);
    // The rejected window left no marker: a window that fits runs.
    expect(await tenure.oncePer(key, { everyMs: 5_000 }, () => 1)).toMatchObject({ ran: true });
  });
});
