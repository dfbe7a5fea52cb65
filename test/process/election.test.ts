// Goal: a process whose leader does not end is ended all the same, by the grace of onShutdown() or by a second signal; and
// hints about the successor are heeded between processes. Method: candidates on one SQLite file that tell what they do with
// the host's clock. Elections under faults are in test/faults/, on every engine.
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Child, crew, type Told } from "../support/process/process-children.ts";

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
  const backup = await candidate(file, { rank: 3 });
  await backup.heard("campaigning");
  const main = await candidate(file, { rank: 0 });
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
