// Goal: a process whose `lead` does not return still ends, by the grace of onShutdown() or by a second signal, and ranks hold
// between processes. Method: candidates on one SQLite file that report what they do. Preferred successors are in test/timed/,
// because their delay is measured. Elections under faults are in test/faults/, on every engine.
import { join } from "node:path";
import { expect, test } from "vitest";
import { leads, useCandidates } from "../support/process-candidates.ts";
import type { Child } from "../support/process-children.ts";

const candidates = useCandidates();

test("SIGTERM with a lead that never ends: code 1 after the grace; a second signal ends it at once", async () => {
  const file = join(candidates.folder(), "tenure.db");
  const deaf = await candidates.start(file, { lead: "deaf", graceMs: 1_000 });
  await leads(deaf);
  deaf.signal("SIGTERM");
  expect((await deaf.exited).code).toBe(1);
  const impatient = await candidates.start(file, { lead: "deaf", graceMs: 60_000 });
  await leads(impatient);
  impatient.signal("SIGTERM");
  await impatient.heard("asked to end");
  impatient.signal("SIGINT");
  expect((await impatient.exited).code).toBe(130);
});

test("rank: a killed leader is replaced by the lower rank, although the other came first", async () => {
  const file = join(candidates.folder(), "tenure.db");
  const leader = await candidates.start(file);
  await leads(leader);
  const backup = await candidates.start(file, { priority: 3 });
  await backup.heard("campaigning");
  const main = await candidates.start(file, { priority: 0 });
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
