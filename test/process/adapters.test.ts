// Goal: with each scheduler that has an adapter, one machine runs a scheduled time, even if the job
// takes no time and the clock of a machine is slow. Other libraries run the job twice in that case.
// Method: three real processes on one SQLite file, each with the same schedule in the real library,
// one of them with a clock that is 300 ms slow.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Child, crew, type Told } from "../support/process/process-children.ts";

const SCHEDULER = new URL("./workers/scheduler.mjs", import.meta.url);
const LATE_MS = 300;
const processes = crew();

async function startMachines(library: string): Promise<Child[]> {
  const url = `sqlite:${join(processes.folder(), "tenure.db")}`;
  const started = ["a", "b", "late"].map((name) => {
    const facts = { library, url, name, reversed: name === "b" };
    return processes.start(SCHEDULER, name === "late" ? { ...facts, lateMs: LATE_MS } : facts);
  });
  await Promise.all(started.map((child) => child.heard("started")));
  return started;
}

const findTimes = (told: readonly Told[], event: string): unknown[] =>
  told.filter((line) => line.event === event).map(({ atMs }) => atMs);

/** The scheduled times that every machine requested, and that any of them could have run. */
function findSharedTimes(children: readonly Child[]): unknown[] {
  const [first = [], ...others] = children.map(({ told }) => findTimes(told, "requested"));
  return first.filter((time) => others.every((times) => times.includes(time)));
}

describe.each(["node-cron", "croner", "nestjs"])("%s", (library) => {
  test("one of three machines runs a scheduled time, however short the job and slow the clock", async () => {
    const children = await startMachines(library);
    await expect
      .poll(() => findSharedTimes(children).length, { timeout: 60_000 })
      .toBeGreaterThan(5);
    const times = findSharedTimes(children);
    // Wait until the last of them, or a later one, has run.
    const newest = (): number =>
      Math.max(...children.flatMap(({ told }) => findTimes(told, "ran").map(Number)));
    await expect.poll(newest, { timeout: 20_000 }).toBeGreaterThanOrEqual(Number(times.at(-1)));
    const told = children.flatMap((child) => child.told);
    const ran = findTimes(told, "ran");
    expect(times.filter((time) => ran.includes(time)).length).toBeGreaterThan(4);
    expect(ran.filter((time, index) => ran.indexOf(time) !== index)).toEqual([]);
    // The schedule determines the times: whole seconds, also on the machine with the slow clock.
    expect(ran.filter((time) => Number(time) % 1_000 !== 0)).toEqual([]);
    const tokens = told.filter(({ event }) => event === "worked").map(({ token }) => token);
    expect(tokens.every((token) => typeof token === "string")).toBe(true);
    expect(new Set(tokens).size).toBe(tokens.length);
    const skipped = told.filter(({ event }) => event === "skipped");
    expect(skipped.some(({ reason, by }) => reason === "taken" && by !== undefined)).toBe(true);
  });
});

test("nestjs: SIGTERM closes the application, and Tenure with it", async () => {
  const url = `sqlite:${join(processes.folder(), "tenure.db")}`;
  const child = processes.start(SCHEDULER, { library: "nestjs", url, name: "a" });
  await child.heard("worked");
  child.signal("SIGTERM");
  await child.heard("closed");
  const { code, signal } = await child.exited;
  expect(code ?? signal).toSatisfy((end) => end === 0 || end === "SIGTERM");
});
