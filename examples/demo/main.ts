// The demo, run by `npm start`: takeovers, handovers and rejected stale writes on one machine, in
// about twenty seconds. This file owns the temporary folder, the signals and the exit code.
// story.ts contains the steps, verdict.ts evaluates the result. The exit code is 0 only if stale
// writes were attempted, none was accepted, and tokens strictly increased.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hideExperimentalWarnings } from "../../src/cli/node-warnings.ts";
import { paintFor } from "../../src/cli/output/output.ts";
import { connect } from "../../src/connect.ts";
import { systemParts } from "../../src/runtime/system.ts";
import type { HolderView } from "../../src/stores/contract.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { Ledger, type LedgerRow } from "./ledger.ts";
import { RESOURCE, storeFile, TIMING, WITHOUT_GUARD } from "./messages.ts";
import { milliseconds, Narrator } from "./narrator.ts";
import { NEXT_STEPS } from "./next.ts";
import { NAMES, playStory } from "./story.ts";
import { Team } from "./team.ts";
import { formatTable, judge, type Verdict } from "./verdict.ts";

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

const { clock } = systemParts();
const paint = paintFor(process.stdout);
const print = (line: string): void => console.log(line);

/** Settles if the demo is interrupted: with the exit code for a signal, or an uncaught error. */
function waitForInterruption(): Promise<number> {
  return new Promise((resolve, reject) => {
    for (const [signal, number] of Object.entries(SIGNALS)) {
      process.on(signal, () => {
        console.error(`\nStopped by ${signal}.`);
        resolve(128 + number);
      });
    }
    process.stdout.on("error", reject);
    process.on("uncaughtException", reject);
    process.on("unhandledRejection", reject);
  });
}

/**
 * Runs the demo and resolves with the exit code. Always ends all workers and removes the folder.
 */
async function runIn(folder: string, interrupted: Promise<number>): Promise<number> {
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
  // In case the `finally` below fails.
  process.on("exit", removeFolder);
  const narrator = new Narrator({ clock, names: NAMES, paint, print });
  const team = new Team({ clock, folder, onSeen: (seen) => narrator.report(seen) });
  try {
    return await Promise.race([runStory(folder, team, narrator), interrupted]);
  } finally {
    await team.kill();
    removeFolder();
  }
}

async function runStory(folder: string, team: Team, narrator: Narrator): Promise<number> {
  const guarded = process.env[WITHOUT_GUARD] !== "1";
  print("Tenure: one process acts at a time, and late writes of a former holder are rejected.");
  print(
    `The lease lasts ${milliseconds(TIMING.ttlMs)} unless renewed. It is kept in a SQLite file in ${folder}.`,
  );
  if (!guarded) {
    print(paint("red", `The guard is OFF (${WITHOUT_GUARD}=1): expect accepted stale writes.`));
  }
  const readHolder = (): Promise<HolderView | undefined> => readHolderIn(folder);
  const measured = await playStory({ team, narrator, clock, readHolder });
  const verdict = judge({ seen: team.seen, rows: await readLedger(folder), measured });
  print(`\n${formatTable(verdict, paint)}\n`);
  print(formatConclusion(verdict, guarded));
  print(NEXT_STEPS);
  return verdict.passed ? 0 : 1;
}

function formatConclusion({ passed, staleAttempted }: Verdict, guarded: boolean): string {
  if (passed) {
    return paint("green", `Passed: the ledger rejected all ${staleAttempted} late writes.`);
  }
  const why = guarded
    ? "see the red lines above"
    : "the guard is off, so stale writes were accepted";
  return paint("red", `Failed: ${why}.`);
}

async function readHolderIn(folder: string): Promise<HolderView | undefined> {
  const tenure = await connect(sqliteStore({ file: storeFile(folder) }));
  try {
    return (await tenure.read(RESOURCE)).holder;
  } finally {
    await tenure.close();
  }
}

async function readLedger(folder: string): Promise<LedgerRow[]> {
  const ledger = await Ledger.open(folder, false);
  try {
    return ledger.rows();
  } finally {
    ledger.close();
  }
}

async function main(): Promise<number> {
  hideExperimentalWarnings();
  const interrupted = waitForInterruption();
  try {
    return await runIn(mkdtempSync(join(tmpdir(), "tenure-demo-")), interrupted);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    console.error(`The demo could not finish: ${reason}`);
    return 1;
  }
}

process.exit(await main());
