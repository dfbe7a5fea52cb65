// Goal: an invalid time, period or option is rejected before any request, and the message says what
// to change. Method: invalid values, each with what its message must contain.
import { expect, test } from "vitest";
import { makeWorld } from "../../test/support/holder/holder-world.ts";
import type { OnceOptions, OncePerOptions } from "./once.ts";

test("invalid input is rejected with what to change", async () => {
  const world = makeWorld();
  const { tenure, store } = await world.join("one");
  const work = (): void => undefined;
  const atMs = world.clock.wallNow();
  const bad: [unknown, RegExp][] = [
    [undefined, /needs `atMs`/],
    [{}, /needs `atMs`/],
    [{ atMs: Number.NaN }, /`atMs` must be/],
    [{ atMs: new Date() }, /getTime/],
    [{ atMs: Math.floor(atMs / 1_000) }, /`atMs` must be .* 1700000001, .* in seconds by 1000/],
    [{ atMs: -1e20 }, /`atMs` must be/],
    [{ atMs, windowMs: 999 }, /`windowMs` must be from 1000/],
    [{ atMs, windowMs: 1e9 }, /`windowMs` must be from 1000/],
    [{ atMs, waitMs: -1 }, /`waitMs`/],
    [{ atMs, ttlMs: -1 }, /ttlMs/],
    [{ atMs, signal: "x" }, /`signal` must be an AbortSignal/],
  ];
  for (const [options, message] of bad)
    await expect(tenure.once("job", options as OnceOptions, work)).rejects.toThrow(message);
  const badPeriods: [unknown, RegExp][] = [
    [undefined, /needs `everyMs`/],
    [{}, /needs `everyMs`/],
    [{ atMs }, /Unknown option `atMs` of oncePer/],
    [{ everyMs: 999 }, /`everyMs` must be from 1000/],
    [{ everyMs: 10_000, waitMs: -1 }, /`waitMs`/],
  ];
  for (const [options, message] of badPeriods)
    await expect(tenure.oncePer("job", options as OncePerOptions, work)).rejects.toThrow(message);
  await expect(tenure.once("", { atMs }, work)).rejects.toThrow(/resource/);
  await expect(tenure.once("x".repeat(510), { atMs }, work)).rejects.toThrow(/bytes/);
  await expect(tenure.once("job", { atMs }, 5 as never)).rejects.toThrow(/function/);
  expect(store.calls.grant).toBe(0);
});
