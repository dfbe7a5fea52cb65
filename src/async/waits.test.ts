// Goal: no request hangs, and no timer is left. Method: a manual clock that counts its pending
// timers.
import { expect, test } from "vitest";
import { GRACE_MS, hang, outcome } from "../../test/support/holder/holder-world.ts";
import { StoreUnavailableError } from "../core/errors.ts";
import { ManualClock } from "../testing/manual-clock.ts";
import { orAborted } from "./signals.ts";
import { pause, withLimit } from "./waits.ts";

test("an answer within the limit is returned, and no timer is left", async () => {
  const clock = new ManualClock();
  expect(await withLimit(clock, 100, "read", async () => "answer")).toBe("answer");
  const error = new Error("no");
  const failing = withLimit(clock, 100, "read", () => Promise.reject(error));
  expect(await outcome(failing)).toEqual({ error });
  expect(clock.timers).toBe(0);
});

test("S7: a request without an answer rejects with StoreUnavailableError and an unknown outcome", async () => {
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

test("a store that throws synchronously leaves no timer", async () => {
  const clock = new ManualClock();
  const error = new Error("not async");
  const throwing = withLimit(clock, 100, "read", () => {
    throw error;
  });
  expect(await outcome(throwing)).toEqual({ error });
  expect(clock.timers).toBe(0);
});

test("a pause resolves after its time, or rejects at once with the reason of its signal", async () => {
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

test("orAborted() settles like the promise, or rejects with the reason of a signal that aborts first", async () => {
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
