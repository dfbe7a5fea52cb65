// Goal: a fire whose machine dies in the middle is not run again and keeps no later one out for longer than a ttl; a machine
// that stood still past its fire does not run it late. Method: real processes on one SQLite file, SIGKILL and SIGSTOP.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";

const FIRE = new URL("./workers/fire.mjs", import.meta.url);
const TIMING = { ttlMs: 2_000, clockErrorMs: 50, roundTripMs: 350, renewEveryMs: 500 };
const processes = crew();

async function machine(file: string, name: string): Promise<Child> {
  const child = processes.start(FIRE, { url: `sqlite:${file}`, name, timing: TIMING });
  await child.heard("started");
  return child;
}

const answer = (child: Child, number: number) =>
  child.heard("fired", (told) => told.number === number);

test("SIGKILL in the middle of a run: the fire stays had, and the next one is run when the ttl is over", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [one, two] = [await machine(file, "one"), await machine(file, "two")];
  const atMs = Date.now();
  one.say({ number: 1, atMs, windowMs: 60_000 });
  const first = await one.heard("runs");
  one.signal("SIGKILL");
  await one.exited;
  two.say({ number: 1, atMs, windowMs: 60_000 });
  expect(await answer(two, 1)).toMatchObject({ ran: false, reason: "taken", by: "one" });
  two.say({ number: 2, atMs: atMs + 1, windowMs: 60_000, waitMs: 15_000 });
  const second = await two.heard("runs");
  expect(second.number).toBe(2);
  expect(BigInt(String(second.token))).toBeGreaterThan(BigInt(String(first.token)));
  // Also behind the later fire.
  two.say({ finish: true });
  await answer(two, 2);
  two.say({ number: 3, atMs, windowMs: 60_000 });
  expect(await answer(two, 3)).toMatchObject({ ran: false, reason: "taken" });
});

test("SIGSTOP before the fire is asked for: a machine that wakes past half of the window does not run it", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [one, two] = [await machine(file, "one"), await machine(file, "two")];
  const windowMs = 6_000;
  const atMs = Date.now();
  one.signal("SIGSTOP");
  // In its pipe, to be read when it wakes.
  one.say({ number: 1, atMs, windowMs });
  two.say({ number: 1, atMs: atMs + 1, windowMs });
  await two.heard("runs");
  two.say({ finish: true });
  expect(await answer(two, 1)).toMatchObject({ ran: true });
  // Until the mark of the other is over, too: only the clock of this machine keeps it from running.
  await sleep(windowMs + 500);
  one.signal("SIGCONT");
  expect(await answer(one, 1)).toMatchObject({ ran: false, reason: "late" });
});

test("SIGSTOP in the middle of a run: the next fire is run by another, with a larger token", async () => {
  const file = join(processes.folder(), "tenure.db");
  const [one, two] = [await machine(file, "one"), await machine(file, "two")];
  const atMs = Date.now();
  one.say({ number: 1, atMs, windowMs: 60_000 });
  const first = await one.heard("runs");
  one.signal("SIGSTOP");
  two.say({ number: 2, atMs: atMs + 1, windowMs: 60_000, waitMs: 15_000 });
  const second = await two.heard("runs");
  expect(BigInt(String(second.token))).toBeGreaterThan(BigInt(String(first.token)));
  one.signal("SIGCONT");
  one.say({ finish: true });
  // Its work came to an end; that the lease was lost meanwhile is for guards and lease.signal to tell.
  expect(await answer(one, 1)).toMatchObject({ ran: true, token: first.token });
});
