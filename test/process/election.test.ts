// Goal: a process whose leader does not end is ended all the same: by the grace of onShutdown(), or by a second signal.
// Method: a real process. Elections under faults are in test/faults/, on every engine.
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process-children.ts";

const TIMING = { ttlMs: 2_000, clockErrorMs: 50, roundTripMs: 350, renewEveryMs: 500 };
const CANDIDATE = new URL("./workers/candidate.mjs", import.meta.url);
const processes = crew();

async function leader(file: string, graceMs: number): Promise<Child> {
  const child = processes.start(CANDIDATE, { url: `sqlite:${file}`, timing: TIMING, graceMs });
  await child.heard("leads");
  return child;
}

test("SIGTERM with a lead that never ends: code 1 after the grace; a second signal ends it at once", async () => {
  const file = join(processes.folder(), "tenure.db");
  const deaf = await leader(file, 1_000);
  deaf.signal("SIGTERM");
  expect((await deaf.exited).code).toBe(1);
  const impatient = await leader(file, 60_000);
  impatient.signal("SIGTERM");
  await impatient.heard("asked to end");
  impatient.signal("SIGINT");
  expect((await impatient.exited).code).toBe(130);
});
