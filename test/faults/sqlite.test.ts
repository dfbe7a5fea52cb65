// Goal: elections on one SQLite file keep the invariants when processes die, freeze, hang and are restarted, and cause no
// herd. Method: real processes, recorded histories. There is no link to cut; what else can happen to a file is in test/process.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { faultTests, type Place, usualTiming } from "../support/faults/fault-engine.ts";
import type { Child } from "../support/process/child.ts";
import { electionCrowd } from "./election-crowd.ts";
import { electionFaults } from "./election-faults.ts";
import { holderFaults } from "./holder-faults.ts";

async function startFile(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "tenure-faults-"));
  return {
    url: `sqlite:${join(folder, "tenure.db")}`,
    [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** There is nobody else who could count. */
async function requestsOf(_file: Place, processes: readonly Child[]): Promise<number> {
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
  counted: { start: startFile, requests: requestsOf, perRenewal: 1 },
};
const tests = faultTests(engine);
holderFaults(engine, tests, "leader");
electionFaults(engine, tests);
electionCrowd(engine, tests);
