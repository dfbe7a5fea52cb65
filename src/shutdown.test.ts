// Goal: onShutdown() refuses what cannot work before it touches a signal, and takes its handlers off again. What happens at a
// signal is shown by real processes (test/process/election.test.ts).
import { expect, test } from "vitest";
import { makeWorld } from "../test/support/holder/holder-world.ts";
import { onShutdown, type ShutdownOptions } from "./shutdown.ts";

test("bad options are named, and no handler is left behind", async () => {
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
