// Goal: a linked signal aborts with the first of the signals it follows, and leaves no listeners on
// them. Method: real AbortControllers and Node's own count of listeners.
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkSignals } from "./signals.ts";

test("a linked signal aborts with the reason of the first signal that aborts", () => {
  const [one, two] = [new AbortController(), new AbortController()];
  const { signal } = linkSignals(one.signal, two.signal);
  expect(signal.aborted).toBe(false);
  two.abort("second");
  one.abort("first");
  expect(signal).toMatchObject({ aborted: true, reason: "second" });
});

test("a signal that has already aborted takes effect at once", () => {
  const { signal } = linkSignals(new AbortController().signal, AbortSignal.abort("early"));
  expect(signal).toMatchObject({ aborted: true, reason: "early" });
});

test("undefined signals are ignored", () => {
  const controller = new AbortController();
  const { signal } = linkSignals(undefined, controller.signal, undefined);
  controller.abort("done");
  expect(signal.reason).toBe("done");
  expect(linkSignals(undefined).signal.aborted).toBe(false);
});

test("after unlink() the signal no longer follows, and no listener is left", () => {
  const long = new AbortController();
  const links = Array.from({ length: 5 }, () => linkSignals(long.signal, AbortSignal.abort("x")));
  expect(getEventListeners(long.signal, "abort")).not.toEqual([]);
  for (const link of links) link.unlink();
  expect(getEventListeners(long.signal, "abort")).toEqual([]);
  const { signal, unlink } = linkSignals(long.signal);
  unlink();
  unlink();
  long.abort();
  expect(signal.aborted).toBe(false);
});
