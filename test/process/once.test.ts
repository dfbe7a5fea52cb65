// Goal: a scheduled time whose machine dies during the run is not run again, and delays later times
// by at most a ttl. A machine that was stopped does not run a scheduled time late. Method: real
// processes on one SQLite file, SIGKILL and SIGSTOP.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";

const SCHEDULED_JOB = new URL("./workers/scheduled-job.mjs", import.meta.url);
const TIMING = { ttlMs: 2_000, clockErrorMs: 50, roundTripMs: 350, renewEveryMs: 500 };
const processes = crew();

async function startMachine(file: string, name: string): Promise<Child> {
  const child = processes.start(SCHEDULED_JOB, { url: `sqlite:${file}`, name, timing: TIMING });
  await child.heard("started");
  return child;
}

const awaitResult = (child: Child, number: number) =>
  child.heard("returned", (told) => told.number === number);

test("after SIGKILL during a run, the scheduled time remains taken, and the next one runs when the ttl has passed", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [one, two] = [await startMachine(file, "one"), await startMachine(file, "two")];
  const atMs = Date.now();
  one.say({ number: 1, atMs, windowMs: 60_000 });
  const first = await one.heard("runs");
  one.signal("SIGKILL");
  await one.exited;
  two.say({ number: 1, atMs, windowMs: 60_000 });
  expect(await awaitResult(two, 1)).toMatchObject({ ran: false, reason: "taken", by: "one" });
  two.say({ number: 2, atMs: atMs + 1, windowMs: 60_000, waitMs: 15_000 });
  const second = await two.heard("runs");
  expect(second.number).toBe(2);
  expect(BigInt(String(second.token))).toBeGreaterThan(BigInt(String(first.token)));
  // The first scheduled time remains taken after the later one.
  two.say({ finish: true });
  await awaitResult(two, 2);
  two.say({ number: 3, atMs, windowMs: 60_000 });
  expect(await awaitResult(two, 3)).toMatchObject({ ran: false, reason: "taken" });
});

test("a machine that was stopped with SIGSTOP and resumes after half of the window does not run the scheduled time", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [one, two] = [await startMachine(file, "one"), await startMachine(file, "two")];
  const windowMs = 6_000;
  const atMs = Date.now();
  one.signal("SIGSTOP");
  // Stays in the pipe until the machine resumes.
  one.say({ number: 1, atMs, windowMs });
  two.say({ number: 1, atMs: atMs + 1, windowMs });
  await two.heard("runs");
  two.say({ finish: true });
  expect(await awaitResult(two, 1)).toMatchObject({ ran: true });
  // Until the marker of the other machine has expired too, so that only lateness by its own clock
  // keeps this machine from running.
  await sleep(windowMs + 500);
  one.signal("SIGCONT");
  expect(await awaitResult(one, 1)).toMatchObject({ ran: false, reason: "late" });
});

test("after SIGSTOP during a run, another machine runs the next scheduled time with a larger token", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [one, two] = [await startMachine(file, "one"), await startMachine(file, "two")];
  const atMs = Date.now();
  one.say({ number: 1, atMs, windowMs: 60_000 });
  const first = await one.heard("runs");
  one.signal("SIGSTOP");
  two.say({ number: 2, atMs: atMs + 1, windowMs: 60_000, waitMs: 15_000 });
  const second = await two.heard("runs");
  expect(BigInt(String(second.token))).toBeGreaterThan(BigInt(String(first.token)));
  one.signal("SIGCONT");
  one.say({ finish: true });
  // The work has completed. That the lease was lost in the meantime is visible to guards and on
  // lease.signal.
  expect(await awaitResult(one, 1)).toMatchObject({ ran: true, token: first.token });
});
