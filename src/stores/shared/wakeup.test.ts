// Goal: a waiter wakes at the first of notification, delay and abort, no notification is lost
// between two waits, and no timer is left running. Method: a manual clock.
import { describe, expect, test } from "vitest";
import { outcome } from "../../../test/support/holder/holder-world.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Wakeup } from "./wakeup.ts";

function setUp() {
  const clock = new ManualClock();
  const stop = new AbortController();
  return { clock, stop, signal: stop.signal, wakeup: new Wakeup(clock) };
}

describe("a wakeup", () => {
  test("a notification ends the wait, also one that came before the wait, until a reset", async () => {
    const { clock, wakeup, signal } = setUp();
    const first = wakeup.wait(1_000, signal);
    expect(await outcome(first)).toBe("pending");
    wakeup.notify();
    expect(await outcome(first)).toEqual({ value: undefined });
    expect(await outcome(wakeup.wait(1_000, signal))).toEqual({ value: undefined });
    wakeup.reset();
    expect(await outcome(wakeup.wait(1_000, signal))).toBe("pending");
    expect(clock.timers).toBe(1);
  });

  test("a wait ends after its delay, and an infinite wait does not end by itself", async () => {
    const { clock, wakeup, signal } = setUp();
    const timed = wakeup.wait(1_000, signal);
    await clock.advance(999);
    expect(await outcome(timed)).toBe("pending");
    await clock.advance(1);
    expect(await outcome(timed)).toEqual({ value: undefined });
    const endless = wakeup.wait(Number.POSITIVE_INFINITY, signal);
    await clock.advance(1_000_000);
    expect(await outcome(endless)).toBe("pending");
    expect(clock.timers).toBe(0);
  });

  test("an abort rejects with its reason, before and during a wait, even after a notification", async () => {
    const { clock, wakeup, stop, signal } = setUp();
    const waiting = wakeup.wait(1_000, signal);
    stop.abort("enough");
    expect(await outcome(waiting)).toEqual({ error: "enough" });
    wakeup.notify();
    expect(await outcome(wakeup.wait(1_000, signal))).toEqual({ error: "enough" });
    expect(clock.timers).toBe(0);
  });
});
