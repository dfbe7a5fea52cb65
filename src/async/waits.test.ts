// Goal: no request hangs and no wait leaves a timer behind. Method: a manual clock whose pending timers are counted.
import { expect, test } from "vitest";
import { GRACE_MS, hang, outcome } from "../../test/support/holder/holder-world.ts";
import { StoreUnavailableError } from "../core/errors.ts";
import { ManualClock } from "../testing/manual-clock.ts";
import { orAborted } from "./signals.ts";
import { pause, withLimit } from "./waits.ts";

test("an answer within the limit comes through, and its timer is gone", async () => {
  const clock = new ManualClock();
  expect(await withLimit(clock, 100, "read", async () => "answer")).toBe("answer");
  const error = new Error("no");
  const failing = withLimit(clock, 100, "read", () => Promise.reject(error));
  expect(await outcome(failing)).toEqual({ error });
  expect(clock.timers).toBe(0);
});

test("S7: no answer within the limit is StoreUnavailableError with an unknown outcome", async () => {
  const clock = new ManualClock();
  const asking = withLimit(clock, 99.6, "renewal", hang).catch((error: unknown) => error);
  await clock.advance(99.6 + GRACE_MS - 0.1);
  expect(await outcome(asking)).toBe("pending");
  await clock.advance(0.1);
  const error = await asking;
  expect(error).toBeInstanceOf(StoreUnavailableError);
  expect(error).toMatchObject({
    applied: "unknown",
    message: expect.stringContaining("renewal within 100 ms"),
  });
  expect(clock.timers).toBe(0);
});

test("a store that throws instead of rejecting leaves no timer either", async () => {
  const clock = new ManualClock();
  const error = new Error("not async");
  const throwing = withLimit(clock, 100, "read", () => {
    throw error;
  });
  expect(await outcome(throwing)).toEqual({ error });
  expect(clock.timers).toBe(0);
});

test("a pause ends after its time, or at once with the reason of its signal", async () => {
  const clock = new ManualClock();
  const long = pause(clock, 100);
  const controller = new AbortController();
  const cut = pause(clock, 100, controller.signal);
  await clock.advance(99);
  expect(await outcome(long)).toBe("pending");
  controller.abort("enough");
  expect(await outcome(cut)).toEqual({ error: "enough" });
  await clock.advance(1);
  await long;
  expect(await outcome(pause(clock, 100, controller.signal))).toEqual({ error: "enough" });
  expect(clock.timers).toBe(0);
});

test("orAborted gives the promise's own outcome, or the reason of the signal that came first", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  expect(await orAborted(Promise.resolve("done"), signal)).toBe("done");
  const error = new Error("no");
  expect(await outcome(orAborted(Promise.reject(error), signal))).toEqual({ error });
  const waiting = orAborted(hang(), signal);
  expect(await outcome(waiting)).toBe("pending");
  controller.abort("enough");
  expect(await outcome(waiting)).toEqual({ error: "enough" });
  expect(await outcome(orAborted(hang(), signal))).toEqual({ error: "enough" });
});
