// Goal: a waiter is woken by whichever comes first, no ring is lost between two waits, and nothing is left behind. Method: a
// manual clock.
import { describe, expect, test } from "vitest";
import { outcome } from "../../../test/support/holder/holder-world.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Bell } from "./bell.ts";

function setUp() {
  const clock = new ManualClock();
  const stop = new AbortController();
  return { clock, stop, signal: stop.signal, bell: new Bell(clock) };
}

describe("a bell", () => {
  test("wakes by a ring, also by one that came before the wait, until it is reset", async () => {
    const { clock, bell, signal } = setUp();
    const first = bell.next(1_000, signal);
    expect(await outcome(first)).toBe("pending");
    bell.ring();
    expect(await outcome(first)).toEqual({ value: undefined });
    expect(await outcome(bell.next(1_000, signal))).toEqual({ value: undefined });
    bell.reset();
    expect(await outcome(bell.next(1_000, signal))).toBe("pending");
    expect(clock.timers).toBe(1);
  });

  test("wakes when the time is over, and never by itself without one", async () => {
    const { clock, bell, signal } = setUp();
    const timed = bell.next(1_000, signal);
    await clock.advance(999);
    expect(await outcome(timed)).toBe("pending");
    await clock.advance(1);
    expect(await outcome(timed)).toEqual({ value: undefined });
    const endless = bell.next(Number.POSITIVE_INFINITY, signal);
    await clock.advance(1_000_000);
    expect(await outcome(endless)).toBe("pending");
    expect(clock.timers).toBe(0);
  });

  test("an abort rejects with its reason, before and during a wait, and comes before a ring", async () => {
    const { clock, bell, stop, signal } = setUp();
    const waiting = bell.next(1_000, signal);
    stop.abort("enough");
    expect(await outcome(waiting)).toEqual({ error: "enough" });
    bell.ring();
    expect(await outcome(bell.next(1_000, signal))).toEqual({ error: "enough" });
    expect(clock.timers).toBe(0);
  });
});
