// Goal: a process whose `lead` does not return still ends, by the grace of onShutdown() or by a
// second signal, and ranks hold between processes. Method: candidates on one SQLite file that
// report what they do. Preferred successors are in test/timed/, because their delay is measured.
// Elections under faults are in test/faults/, on every engine.
import { join } from "node:path";
import { expect, test } from "vitest";
import { leads, PATIENT_TIMING, useCandidates } from "../support/process/process-candidates.ts";
import type { Child } from "../support/process/process-children.ts";

const candidates = useCandidates();

test("a process whose `lead` never returns ends with code 1 after the grace period, or at once on a second signal", async () => {
  const file = join(candidates.folder(), "tenure.db");
  const deaf = await candidates.start(file, { lead: "deaf", graceMs: 1_000 });
  await leads(deaf);
  deaf.signal("SIGTERM");
  expect((await deaf.exited).code).toBe(1);
  const impatient = await candidates.start(file, { lead: "deaf", graceMs: 60_000 });
  await leads(impatient);
  impatient.signal("SIGTERM");
  await impatient.heard("shutting down");
  impatient.signal("SIGINT");
  expect((await impatient.exited).code).toBe(130);
});

test("a killed leader is replaced by the candidate of the lower rank, even if another candidate came first", async () => {
  const file = join(candidates.folder(), "tenure.db");
  const timing = PATIENT_TIMING;
  const leader = await candidates.start(file, { timing });
  await leads(leader);
  const backup = await candidates.start(file, { timing, rank: 3 });
  await backup.heard("campaigning");
  const main = await candidates.start(file, { timing, rank: 0 });
  await main.heard("campaigning");
  await kill(leader);
  const first = await leads(main);
  expect(backup.told.filter(({ event }) => event === "leads")).toEqual([]);
  // Without another candidate, the one of the higher rank leads.
  await kill(main);
  const last = await leads(backup);
  expect(BigInt(String(last.token))).toBeGreaterThan(BigInt(String(first.token)));
});

async function kill(child: Child): Promise<void> {
  child.signal("SIGKILL");
  await child.exited;
}
