// Goal: onShutdown() rejects invalid options before it installs handlers, and removes its handlers.
// Real processes test what happens on a signal (test/process/election.test.ts).
import { expect, test } from "vitest";
import { makeWorld } from "../test/support/holder/holder-world.ts";
import { onShutdown, type ShutdownOptions } from "./shutdown.ts";

test("invalid options are rejected, and no handler remains", async () => {
  const { tenure } = await makeWorld().join("one");
  const before = process.listenerCount("SIGTERM");
  const bad: [ShutdownOptions, RegExp][] = [
    [{ graceMs: -1 }, /graceMs/],
    [{ graceMs: Number.NaN }, /graceMs/],
    [{ graceMs: Number.POSITIVE_INFINITY }, /graceMs/],
    [{ signals: ["SIGNONSENSE" as NodeJS.Signals] }, /SIGNONSENSE/],
  ];
  for (const [options, message] of bad) expect(() => onShutdown(tenure, options)).toThrow(message);
  expect(process.listenerCount("SIGTERM")).toBe(before);
  const off = onShutdown([tenure]);
  expect(process.listenerCount("SIGTERM")).toBe(before + 1);
  off();
  expect(process.listenerCount("SIGTERM")).toBe(before);
});
