// Goal: at most one of many competing processes holds a resource at a time. Method: 16 processes
// acquire one resource many times each, and append a begin line and an end line to a shared log
// while they hold it. Afterwards the log must alternate between begin and end, with increasing
// tokens and increasing times.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";

const LOG_TURNS = new URL("./workers/log-turns.mjs", import.meta.url);
const PROCESSES = 16;
const TURNS = process.env.TENURE_LONG === "1" ? 200 : 40;
const processes = crew();

interface Entry {
  readonly what: string;
  readonly token: bigint;
  readonly pid: string;
  readonly at: bigint;
}

function readLog(log: string): Entry[] {
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  return lines.map((line) => {
    const [what = "", token = "", pid = "", at = ""] = line.split(" ");
    return { what, token: BigInt(token), pid, at: BigInt(at) };
  });
}

/** Returns one line for each sign of two holders at once or of a token that is not larger. */
function findFaults(entries: readonly Entry[]): string[] {
  const faults: string[] = [];
  let last: Entry | undefined;
  for (const [index, entry] of entries.entries()) {
    const addFault = (fault: string): number =>
      faults.push(`line ${index + 1}: ${fault} (${entry.what} ${entry.token} by ${entry.pid})`);
    if (last !== undefined && entry.at < last.at) addFault("goes back in time");
    if (entry.what === "begin") {
      if (last?.what === "begin") addFault(`begins while ${last.pid} holds`);
      if (last !== undefined && entry.token <= last.token)
        addFault(`token not above ${last.token}`);
    } else if (last?.what !== "begin" || last.token !== entry.token || last.pid !== entry.pid) {
      addFault("ends a turn that is not the last one that began");
    }
    last = entry;
  }
  return faults;
}

test(`S1, S4: of 16 processes with ${TURNS} acquisitions each, at most one holds at a time, and tokens strictly increase`, async () => {
  const folder = processes.folder();
  const log = join(folder, "log");
  const file = join(folder, "tenure.db");
  const options = { ttlMs: 10_000, waitMs: 100_000 };
  const workers = Array.from({ length: PROCESSES }, () =>
    processes.start(LOG_TURNS, { file, log, turns: TURNS, options }),
  );
  await Promise.all(workers.map((worker) => worker.heard("ready")));
  const startedAt = performance.now();
  for (const worker of workers) worker.say({ do: "go" });
  const exits = await Promise.all(workers.map((worker) => worker.exited));
  const tookMs = performance.now() - startedAt;

  expect(workers.map((worker) => worker.errors).join("")).toBe("");
  expect(exits.map((exit) => exit.code)).toEqual(workers.map(() => 0));
  const entries = readLog(log);
  expect(findFaults(entries)).toEqual([]);
  const begins = entries.filter((entry) => entry.what === "begin");
  expect(begins).toHaveLength(PROCESSES * TURNS);
  for (const worker of workers) {
    expect(begins.filter((entry) => entry.pid === String(worker.pid))).toHaveLength(TURNS);
  }
  const handovers = begins.filter((entry, index) => entry.pid !== begins[index - 1]?.pid).length;
  console.log(
    `      ${begins.length} grants in ${(tookMs / 1000).toFixed(1)} s, ${(begins.length / (tookMs / 1000)).toFixed(0)} a second, ` +
      `${handovers} of them from one process to another (${(tookMs / handovers).toFixed(1)} ms each)`,
  );
}, 240_000);
