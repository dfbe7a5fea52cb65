// Goal: a limit calls back at its time and not before, independent of other limits, and one timer
// serves all. Method: a manual clock that counts its timers, and a clock that records the calls of
// keepAlive().

import { expect, test } from "vitest";
import { ManualClock } from "../testing/manual-clock.ts";
import type { Clock, Timer } from "./clock.ts";
import { getSharedLimits, Limits } from "./limits.ts";

test("a limit that is not ended calls back once, at its time", async () => {
  const clock = new ManualClock();
  const late: string[] = [];
  const limit = new Limits(clock).start(100, () => late.push("late"));
  await clock.advance(99);
  expect(late).toEqual([]);
  await clock.advance(1);
  expect(late).toEqual(["late"]);
  limit.end();
  await clock.advance(1_000);
  expect(late).toEqual(["late"]);
  expect(clock.timers).toBe(0);
});

test("a limit that is ended never calls back, and leaves no timer", async () => {
  const clock = new ManualClock();
  const late: string[] = [];
  const limit = new Limits(clock).start(100, () => late.push("late"));
  limit.end();
  limit.end();
  expect(clock.timers).toBe(0);
  await clock.advance(1_000);
  expect(late).toEqual([]);
});

test("each of many limits calls back at its own time, with one timer", async () => {
  const clock = new ManualClock();
  const limits = new Limits(clock);
  const late: number[] = [];
  const started = [300, 100, 200, 100, 500].map((ms) => limits.start(ms, () => late.push(ms)));
  expect(clock.timers).toBe(1);
  started[2]?.end();
  await clock.advance(99);
  expect(late).toEqual([]);
  await clock.advance(1);
  expect(late).toEqual([100, 100]);
  expect(clock.timers).toBe(1);
  await clock.advance(200);
  expect(late).toEqual([100, 100, 300]);
  started[4]?.end();
  expect(clock.timers).toBe(0);
});

test("a callback may end another limit and start a new one", async () => {
  const clock = new ManualClock();
  const limits = new Limits(clock);
  const late: string[] = [];
  const other = limits.start(150, () => late.push("other"));
  limits.start(100, () => {
    other.end();
    limits.start(100, () => late.push("next"));
  });
  await clock.advance(100);
  await clock.advance(99);
  expect(late).toEqual([]);
  await clock.advance(1);
  expect(late).toEqual(["next"]);
  expect(clock.timers).toBe(0);
});

test("all users of one clock share its limits", () => {
  const [one, two] = [new ManualClock(), new ManualClock()];
  expect(getSharedLimits(one)).toBe(getSharedLimits(one));
  expect(getSharedLimits(one)).not.toBe(getSharedLimits(two));
});

test("an unused timer is kept if it can release the process, and keeps the process alive only while a limit is pending", async () => {
  const inner = new ManualClock();
  const held: boolean[] = [];
  const clock: Clock = Object.assign(Object.create(inner) as Clock, {
    now: () => inner.now(),
    setTimer: (callback: () => void, delayMs: number): Timer => {
      held.push(true);
      const timer = inner.setTimer(callback, delayMs);
      return { cancel: () => timer.cancel(), keepAlive: (on) => held.push(on) };
    },
  });
  const limits = new Limits(clock);
  const late: string[] = [];
  limits.start(100, () => late.push("first")).end();
  expect(held).toEqual([true, false]);
  limits.start(150, () => late.push("second"));
  expect(held).toEqual([true, false, true]);
  expect(inner.timers).toBe(1);
  await inner.advance(100);
  expect(late).toEqual([]);
  await inner.advance(50);
  expect(late).toEqual(["second"]);
  expect(inner.timers).toBe(0);
});
