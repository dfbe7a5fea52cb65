// Goal: elections on one SQLite file keep the invariants when processes die, freeze, hang and
// restart, and a change of leader does not wake all candidates. Method: real processes and recorded
// histories. There is no link to cut; other faults of a file are tested in test/process.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { declareFaultTests, type Place, usualTiming } from "../support/faults/fault-engine.ts";
import type { Child } from "../support/process/child.ts";
import { testElectionCrowd } from "./election-crowd.ts";
import { testElectionFaults } from "./election-faults.ts";
import { testHolderFaults } from "./holder-faults.ts";

async function startFile(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "tenure-faults-"));
  return {
    url: `sqlite:${join(folder, "tenure.db")}`,
    [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Only the processes themselves can count: there is no server. */
async function countRequests(_file: Place, processes: readonly Child[]): Promise<number> {
  let sum = 0;
  for (const child of processes) {
    const askedAt = Number(process.hrtime.bigint()) / 1e6;
    child.say({ do: "count" });
    sum += Number((await child.heard("counted", ({ at }) => at > askedAt)).requests);
  }
  return sum;
}

const engine = {
  name: "sqlite",
  start: startFile,
  lagMs: 0,
  timing: usualTiming,
  counted: { start: startFile, requests: countRequests, perRenewal: 1 },
};
const tests = declareFaultTests(engine);
testHolderFaults(engine, tests, "leader");
testElectionFaults(engine, tests);
testElectionCrowd(engine, tests);
