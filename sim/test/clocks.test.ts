// Goal: a timer of a simulated program fires when the program's clock reaches it, even if the rate
// changes. Method: one machine, with timers that record the true instant and the reading of the
// clock.
import { expect, test } from "vitest";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";

function makeMachine() {
  const schedule = new Schedule();
  const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 5_000, name: "machine" });
  const program = new Program({ name: "p", schedule, clocks, chance: new Chance("clocks") });
  const begunAt = clocks.now();
  const fired: { readonly trueMs: number; readonly shownMs: number }[] = [];
  const wait = (ms: number): void => {
    program.clock.setTimer(() => {
      const shownMs = Math.round(clocks.now() - begunAt);
      fired.push({ trueMs: Math.round(schedule.now), shownMs });
    }, ms);
  };
  const run = (): void => {
    while (schedule.step());
  };
  return { schedule, clocks, program, fired, wait, run };
}

test.each([
  ["half as fast", 0.5, 1_250],
  ["twice as fast", 2, 500],
  ["one and a half times as fast", 1.5, 750],
])(
  "a one-second timer fires at one second of a clock that runs %s for half a second",
  (_, rate, trueMs) => {
    const { schedule, clocks, fired, wait, run } = makeMachine();
    wait(1_000);
    clocks.setRate(rate);
    schedule.at(500, () => clocks.setRate(1));
    run();
    expect(fired).toEqual([{ trueMs, shownMs: 1_000 }]);
  },
);

test("a change of the rate fires no cancelled or expired timer, and none of a killed program", () => {
  const { clocks, program, fired, wait, run } = makeMachine();
  wait(100);
  program.clock.setTimer(() => expect.unreachable(), 200).cancel();
  run();
  clocks.setRate(0.5);
  run();
  expect(fired).toHaveLength(1);
  wait(100);
  program.kill();
  clocks.setRate(1);
  run();
  expect(fired).toHaveLength(1);
});
