// Goal: a linked signal aborts with the first of those it follows, and leaves nothing behind on them. Method: real
// AbortControllers, and Node's own count of listeners.
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkSignals } from "./signals.ts";

test("it aborts with the reason of the first signal that aborts, and keeps that reason", () => {
  const [one, two] = [new AbortController(), new AbortController()];
  const { signal } = linkSignals(one.signal, two.signal);
  expect(signal.aborted).toBe(false);
  two.abort("second");
  one.abort("first");
  expect(signal).toMatchObject({ aborted: true, reason: "second" });
});

test("a signal that has aborted before it is followed counts at once", () => {
  const { signal } = linkSignals(new AbortController().signal, AbortSignal.abort("early"));
  expect(signal).toMatchObject({ aborted: true, reason: "early" });
});

test("signals that are absent are passed over", () => {
  const controller = new AbortController();
  const { signal } = linkSignals(undefined, controller.signal, undefined);
  controller.abort("done");
  expect(signal.reason).toBe("done");
  expect(linkSignals(undefined).signal.aborted).toBe(false);
});

test("after unlink it follows no longer, and the signals it followed hold no listener of it", () => {
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
