// Goal: elections of real processes: a rolling restart costs no ttl, a killed leader is replaced within one, a frozen
// one does nothing when it wakes, and SIGTERM ends a process in order. Method: candidates on one SQLite file that tell
// what they do with the host's clock.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Child, crew, type Told } from "../support/process-children.ts";
import { ms } from "../support/process-file.ts";

const TIMING = { ttlMs: 2_000, clockErrorMs: 50, roundTripMs: 350, renewEveryMs: 500 };
const CANDIDATE = new URL("./workers/candidate.mjs", import.meta.url);
const processes = crew();
let names = 0;

async function candidate(file: string, settings: object = {}): Promise<Child> {
  names += 1;
  const facts = { url: `sqlite:${file}`, timing: TIMING, name: `c${names}`, ...settings };
  const child = processes.start(CANDIDATE, facts);
  await child.heard("started");
  return child;
}

const leads = (child: Child, after = 0n): Promise<Told> =>
  child.heard("leads", ({ token }) => BigInt(String(token)) > after);

test("L4: a rolling restart of five candidates leaves no ttl-long gap, and each process ends with code 0", async () => {
  const file = join(processes.folder(), "tenure.db");
  const first = await candidate(file);
  await leads(first);
  const line: Child[] = [first];
  for (let index = 1; index < 5; index += 1) {
    const next = await candidate(file);
    await next.heard("campaigning");
    line.push(next);
  }
  const gaps: number[] = [];
  const terms: bigint[] = [];
  for (let round = 0; round < 5; round += 1) {
    const [leader, successor] = line as [Child, Child];
    const fresh = await candidate(file);
    await fresh.heard("campaigning");
    const succeeded = leads(successor);
    leader.signal("SIGTERM");
    const { code } = await leader.exited;
    expect(code).toBe(0);
    const led = await leader.heard("led");
    const began = await succeeded;
    terms.push(BigInt(String(began.token)));
    gaps.push(began.at - led.at);
    line.shift();
    line.push(fresh);
  }
  const total = gaps.reduce((sum, gap) => sum + gap, 0);
  console.log(
    `      five restarts: leaderless ${ms(total)} in all, longest ${ms(Math.max(...gaps))}`,
  );
  expect(Math.min(...gaps)).toBeGreaterThan(0);
  // Far below any ttl, and generous for a busy machine.
  expect(Math.max(...gaps)).toBeLessThan(TIMING.ttlMs / 2);
  expect(terms).toEqual([...terms].sort((a, b) => Number(a - b)));
  for (const child of line) child.signal("SIGKILL");
});

test("L1: a leader that is killed is replaced within its ttl and a little", async () => {
  const file = join(processes.folder(), "tenure.db");
  const leader = await candidate(file);
  const old = await leads(leader);
  const standby = await candidate(file, { warmMs: 300 });
  await standby.heard("campaigning");
  const at = await killed(leader);
  const next = await leads(standby);
  expect(BigInt(String(next.token))).toBeGreaterThan(BigInt(String(old.token)));
  expect(next.at - at).toBeLessThan(TIMING.ttlMs + 600);
});

test("S6: a leader that was frozen past its ttl does not act when it wakes, and campaigns again", async () => {
  const file = join(processes.folder(), "tenure.db");
  const leader = await candidate(file);
  const { token } = await leads(leader);
  const standby = await candidate(file);
  await standby.heard("campaigning");
  leader.signal("SIGSTOP");
  const next = await leads(standby);
  await sleep(100);
  leader.signal("SIGCONT");
  await leader.heard("lost");
  await leader.heard("campaigning", (told) => told.at > next.at);
  const late = leader.told.filter(
    (act) => act.event === "acted" && act.token === token && act.at > next.at,
  );
  expect(late).toEqual([]);
  expect(standby.told.filter(({ event }) => event === "acted").length).toBeGreaterThan(5);
});

test("SIGTERM with a lead that never ends: code 1 after the grace; a second signal ends it at once", async () => {
  const file = join(processes.folder(), "tenure.db");
  const deaf = await candidate(file, { lead: "deaf", graceMs: 1_000 });
  await leads(deaf);
  deaf.signal("SIGTERM");
  expect((await deaf.exited).code).toBe(1);
  const impatient = await candidate(file, { lead: "deaf", graceMs: 60_000 });
  await leads(impatient);
  impatient.signal("SIGTERM");
  await impatient.heard("asked to end");
  impatient.signal("SIGINT");
  expect((await impatient.exited).code).toBe(130);
});

test("the preferred candidate takes over from the end of the queue; a wish for one that was killed costs its time at most", async () => {
  const file = join(processes.folder(), "tenure.db");
  const leader = await candidate(file, { name: "leader" });
  await leads(leader);
  const queue: Child[] = [];
  for (const name of ["second", "third", "fourth"]) {
    const next = await candidate(file, { name });
    await next.heard("campaigning");
    queue.push(next);
  }
  const [second, third, fourth] = queue as [Child, Child, Child];
  leader.say({ preferred: "fourth", waitMs: 10_000 });
  const { token } = await leads(fourth);
  expect(await leader.heard("handed over")).toMatchObject({ successor: { holderId: "fourth" } });
  for (const other of [second, third])
    expect(other.told.filter(({ event }) => event === "leads")).toEqual([]);
  // Its session is over when nobody expects it: the others hold back for nothing.
  third.signal("SIGKILL");
  await third.exited;
  const preferredMs = 1_000;
  const led = fourth.heard("led");
  fourth.say({ preferred: "third", preferredMs, waitMs: 0 });
  const from = await led;
  const next = await Promise.race([leads(second), leads(leader, BigInt(String(token)))]);
  expect(next.at - from.at).toBeGreaterThan(preferredMs / 2);
  expect(next.at - from.at).toBeLessThan(preferredMs + TIMING.ttlMs);
});

test("rank: a killed leader is replaced by the lower rank, although the other came first", async () => {
  const file = join(processes.folder(), "tenure.db");
  const leader = await candidate(file);
  await leads(leader);
  const backup = await candidate(file, { priority: 3 });
  await backup.heard("campaigning");
  const main = await candidate(file, { priority: 0 });
  await main.heard("campaigning");
  await killed(leader);
  const first = await leads(main);
  expect(backup.told.filter(({ event }) => event === "leads")).toEqual([]);
  // And where there is no other, by the higher one.
  await killed(main);
  const last = await leads(backup);
  expect(BigInt(String(last.token))).toBeGreaterThan(BigInt(String(first.token)));
});

async function killed(child: Child): Promise<number> {
  const at = Number(process.hrtime.bigint()) / 1e6;
  child.signal("SIGKILL");
  await child.exited;
  return at;
}
