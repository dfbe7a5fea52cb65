// `npm run proof -- --trials N [--resource redis] [--json]`: late writes of stopped and cut-off holders, counted at the real
// resources, with the guard and without. Accepted with the guard must be 0, and without it more, or the count proves
// nothing; the exit code says whether both hold.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CannotRunError } from "../../test/servers/engine.ts";
import { type LaneResult, runLane } from "./lane.ts";
import { resources } from "./resources.ts";
import type { ResourceName } from "./writers.ts";

interface Line {
  readonly resource: ResourceName;
  readonly trials: number;
  readonly staleTried: number;
  readonly staleAccepted: number;
  readonly staleAcceptedWithoutGuard: number;
  /** Of one lane; several run at once. */
  readonly secondsPerTrial: number;
  readonly secondsPerTrialWithoutGuard: number;
}

/** Most of a trial is waiting for a ttl, so many trials are spread over lanes, each with its own holder, lease and data. */
const TRIALS_PER_LANE = 25;
/** Of all resources together. A lane is two busy processes: more, on few cores, would starve each other past their ttl. */
const LANES_MAX = 8;
const names = Object.keys(resources) as ResourceName[];

function readArguments(args: readonly string[]): Asked {
  const asked = { trials: 10, chosen: [] as ResourceName[], json: false };
  for (let index = 0; index < args.length; index += 1) {
    const value = args[index + 1] ?? "";
    if (args[index] === "--json") asked.json = true;
    else if (args[index] === "--trials" && /^[1-9]\d{0,4}$/.test(value))
      asked.trials = Number(value);
    else if (args[index] === "--resource" && (names as string[]).includes(value)) {
      asked.chosen.push(value as ResourceName);
    } else {
      console.error(`Not understood: ${args.slice(index, index + 2).join(" ")}
Usage: npm run proof -- [--trials N] [--resource ${names.join("|")}] [--json]`);
      process.exit(2);
    }
    if (args[index] !== "--json") index += 1;
  }
  return asked;
}

interface Asked {
  readonly trials: number;
  readonly chosen: readonly ResourceName[];
  readonly json: boolean;
}

async function prove(resource: ResourceName, trials: number, folder: string): Promise<Line> {
  const started = await resources[resource].start();
  try {
    const lane = async (index: number, isGuarded: boolean, count: number): Promise<LaneResult> => {
      const name = `lane_${isGuarded ? "guarded" : "bare"}_${index}`;
      const place = { resource, name, isGuarded };
      const own = join(folder, resource, name);
      mkdirSync(own, { recursive: true });
      const leave = await enterLane();
      try {
        const ground = await started.lane({ folder: own, name, isGuarded });
        try {
          return await runLane({ folder: own, place, ground, trials: count });
        } finally {
          await ground.close();
        }
      } finally {
        leave();
      }
    };
    const lanes = Math.ceil(trials / TRIALS_PER_LANE);
    const counts = Array.from(
      { length: lanes },
      (_, index) => Math.floor(trials / lanes) + (index < trials % lanes ? 1 : 0),
    );
    const all = await Promise.all(
      [true, false].map((isGuarded) =>
        Promise.all(counts.map((count, index) => lane(index, isGuarded, count))),
      ),
    );
    const [guarded = [], bare = []] = all;
    return {
      resource,
      trials,
      staleTried: sum(guarded, (result) => result.staleTried),
      staleAccepted: sum(guarded, (result) => result.staleAccepted),
      staleAcceptedWithoutGuard: sum(bare, (result) => result.staleAccepted),
      secondsPerTrial: perTrial(guarded, trials),
      secondsPerTrialWithoutGuard: perTrial(bare, trials),
    };
  } finally {
    await started.close();
  }
}

function sum(results: readonly LaneResult[], pick: (result: LaneResult) => number): number {
  return results.reduce((total, result) => total + pick(result), 0);
}

function perTrial(results: readonly LaneResult[], trials: number): number {
  return Number((sum(results, (result) => result.seconds) / trials).toFixed(2));
}

let lanesRunning = 0;
const lanesWaiting: (() => void)[] = [];

/** Resolves when there is room for one more; first come, first served. */
async function enterLane(): Promise<() => void> {
  if (lanesRunning < LANES_MAX) lanesRunning += 1;
  else await new Promise<void>((enter) => void lanesWaiting.push(enter));
  return () => {
    // The place goes from hand to hand.
    const next = lanesWaiting.shift();
    if (next === undefined) lanesRunning -= 1;
    else next();
  };
}

function faultOf(line: Line): string | undefined {
  if (line.staleAccepted > 0) return "stale writes were accepted";
  if (line.staleTried < line.trials) return "hardly any stale write was tried";
  if (line.staleAcceptedWithoutGuard === 0)
    return "without the guard nothing was accepted: the count cannot fail";
  return undefined;
}

const asked = readArguments(process.argv.slice(2));
const folder = mkdtempSync(join(tmpdir(), "tenure-proof-"));
let isProven = true;
try {
  const chosen = asked.chosen.length === 0 ? names : asked.chosen;
  if (!asked.json) console.log(`${asked.trials} trials each: ${chosen.join(", ")} ...`);
  await Promise.all(
    chosen.map(async (resource) => {
      try {
        const line = await prove(resource, asked.trials, folder);
        const fault = faultOf(line);
        if (fault !== undefined) isProven = false;
        console.log(asked.json ? JSON.stringify(line) : plain(line, fault));
      } catch (error) {
        // A server that this machine cannot have is told, and is a failure where it was asked for by name.
        if (!(error instanceof CannotRunError) || asked.chosen.includes(resource)) isProven = false;
        console.error(
          `${resource}: ${error instanceof CannotRunError ? `skipped: ${error.message}` : String(error)}`,
        );
      }
    }),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(isProven ? 0 : 1);

function plain(line: Line, fault: string | undefined): string {
  const { resource, trials, staleTried, staleAccepted, staleAcceptedWithoutGuard } = line;
  return (
    `${resource.padEnd(9)} ${trials} trials, ${staleTried} stale writes tried, ${staleAccepted} accepted; ` +
    `without the guard ${staleAcceptedWithoutGuard} accepted; ${line.secondsPerTrial} and ${line.secondsPerTrialWithoutGuard} s per trial${fault === undefined ? "" : `   FAILED: ${fault}`}`
  );
}
