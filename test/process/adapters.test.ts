// Goal: with each scheduler that has an adapter, a fire is run by one machine, also when the job takes no time and the clock
// of a machine is late, which is how peers run it twice. Method: three real processes on one SQLite file, each with the
// same schedule in the real library, one of them with its clock 300 ms late.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Child, crew, type Told } from "../support/process/process-children.ts";

const SCHEDULER = new URL("./workers/scheduler.mjs", import.meta.url);
const LATE_MS = 300;
const processes = crew();

async function machines(library: string): Promise<Child[]> {
  const url = `sqlite:${join(processes.folder(), "tenure.db")}`;
  const started = ["a", "b", "late"].map((name) => {
    const facts = { library, url, name, reversed: name === "b" };
    return processes.start(SCHEDULER, name === "late" ? { ...facts, lateMs: LATE_MS } : facts);
  });
  await Promise.all(started.map((child) => child.heard("started")));
  return started;
}

const firesOf = (told: readonly Told[], event: string): unknown[] =>
  told.filter((line) => line.event === event).map(({ atMs }) => atMs);

/** Fires that every machine asked for, so that each of them could have run it. */
function shared(children: readonly Child[]): unknown[] {
  const [first = [], ...others] = children.map(({ told }) => firesOf(told, "asked"));
  return first.filter((fire) => others.every((fires) => fires.includes(fire)));
}

describe.each(["node-cron", "croner", "nestjs"])("%s", (library) => {
  test("a fire that three machines have is run by one, however short the job and late the clock", async () => {
    const children = await machines(library);
    await expect.poll(() => shared(children).length, { timeout: 60_000 }).toBeGreaterThan(5);
    const fires = shared(children);
    // Until the last of them, or one behind it, has been run.
    const newest = (): number =>
      Math.max(...children.flatMap(({ told }) => firesOf(told, "ran").map(Number)));
    await expect.poll(newest, { timeout: 20_000 }).toBeGreaterThanOrEqual(Number(fires.at(-1)));
    const told = children.flatMap((child) => child.told);
    const ran = firesOf(told, "ran");
    expect(fires.filter((fire) => ran.includes(fire)).length).toBeGreaterThan(4);
    expect(ran.filter((fire, index) => ran.indexOf(fire) !== index)).toEqual([]);
    // Named by the schedule: whole seconds, the same on the machine that is late.
    expect(ran.filter((fire) => Number(fire) % 1_000 !== 0)).toEqual([]);
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
