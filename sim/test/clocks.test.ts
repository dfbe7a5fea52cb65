// Goal: what a simulated program waits for by its clock comes when that clock shows it, whatever happens to the clock meanwhile.
// Method: one machine, timers that note the true instant and what the clock shows.
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
  "a clock that goes %s for half a second: its timer comes when it shows a second",
  (_, rate, trueMs) => {
    const { schedule, clocks, fired, wait, run } = makeMachine();
    wait(1_000);
    clocks.setRate(rate);
    schedule.at(500, () => clocks.setRate(1));
    run();
    expect(fired).toEqual([{ trueMs, shownMs: 1_000 }]);
  },
);

test("a timer that was cancelled, or that is over, does not come with a new rate; nor any of a program that was killed", () => {
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
