// What `npm start` runs: the main job of the library on one machine, in about twenty seconds and without a question.
// It owns the temporary folder, the signals and the exit code; demo/story.ts has the play, demo/verdict.ts the judgement.
// Exit code 0 only when a stale write was tried, none was accepted, and tokens strictly increased.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hideExperimentalWarnings } from "../../src/cli/node-warnings.ts";
import { paintFor } from "../../src/cli/output/paint.ts";
import { connect } from "../../src/connect.ts";
import { systemParts } from "../../src/runtime/system.ts";
import type { HolderView } from "../../src/stores/contract.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { Ledger, type LedgerRow } from "./ledger.ts";
import { RESOURCE, storeFile, TIMING, WITHOUT_GUARD } from "./messages.ts";
import { milliseconds, Narrator } from "./narrator.ts";
import { NEXT_STEPS } from "./next.ts";
import { NAMES, tellStory } from "./story.ts";
import { Team } from "./team.ts";
import { judge, table, type Verdict } from "./verdict.ts";

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

const { clock } = systemParts();
const paint = paintFor(process.stdout);
const print = (line: string): void => console.log(line);

/** Settles only when something from outside ends the demo: the exit code for a signal, or an error nobody caught. */
function interruption(): Promise<number> {
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

/** Plays, judges, prints; answers the exit code. Whatever happens, no process and no file of the demo outlives it. */
async function playIn(folder: string, interrupted: Promise<number>): Promise<number> {
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
  // The last resort, when even the tidy end below fails.
  process.on("exit", removeFolder);
  const narrator = new Narrator({ clock, names: NAMES, paint, print });
  const team = new Team({ clock, folder, onSeen: (seen) => narrator.tell(seen) });
  try {
    return await Promise.race([play(folder, team, narrator), interrupted]);
  } finally {
    await team.kill();
    removeFolder();
  }
}

async function play(folder: string, team: Team, narrator: Narrator): Promise<number> {
  const guarded = process.env[WITHOUT_GUARD] !== "1";
  print("Tenure: one process acts at a time, and the late acts of a former holder are harmless.");
  print(
    `The lease lasts ${milliseconds(TIMING.ttlMs)} unless renewed, in a SQLite file in ${folder}.`,
  );
  if (!guarded) {
    print(paint("red", `The guard is OFF (${WITHOUT_GUARD}=1): expect stale writes to get in.`));
  }
  const readHolder = (): Promise<HolderView | undefined> => holderIn(folder);
  const measured = await tellStory({ team, narrator, clock, readHolder });
  const verdict = judge({ seen: team.seen, rows: await readLedger(folder), measured });
  print(`\n${table(verdict, paint)}\n`);
  print(closing(verdict, guarded));
  print(NEXT_STEPS);
  return verdict.passed ? 0 : 1;
}

function closing({ passed, staleTried }: Verdict, guarded: boolean): string {
  if (passed) {
    return paint("green", `Passed: the ledger itself refused all ${staleTried} late writes.`);
  }
  const why = guarded ? "see what is red above" : "the guard is off, and this is what it prevents";
  return paint("red", `Failed: ${why}.`);
}

async function holderIn(folder: string): Promise<HolderView | undefined> {
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
  const interrupted = interruption();
  try {
    return await playIn(mkdtempSync(join(tmpdir(), "tenure-demo-")), interrupted);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    console.error(`The demo could not finish: ${reason}`);
    return 1;
  }
}

process.exit(await main());
