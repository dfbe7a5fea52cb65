// `npm run proof -- [--trials N] [--resource redis] [--json]`: late writes of stopped and cut-off
// holders, counted at the real resources, with the guard and without. The exit code is 0 if none
// was accepted with the guard and some were without it; otherwise the count would prove nothing.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CannotRunError } from "../../test/servers/engine.ts";
import { sum } from "../statistics.ts";
import { resources } from "./resources.ts";
import { runTrials, type TrialCounts } from "./trials.ts";
import type { ResourceName } from "./writers.ts";

/** The JSON of one resource. */
export interface ProofLine {
  readonly resource: ResourceName;
  readonly trials: number;
  readonly staleTried: number;
  readonly staleAccepted: number;
  readonly staleAcceptedWithoutGuard: number;
  readonly secondsPerTrial: number;
  readonly secondsPerTrialWithoutGuard: number;
}

/** A trial mostly waits for a ttl, so groups of trials run at the same time. */
const TRIALS_PER_GROUP = 25;
/** A group is two busy processes. With more of them on few cores, holders would miss their ttl. */
const GROUPS_MAX = 8;
const names = Object.keys(resources) as ResourceName[];

interface Flags {
  readonly trials: number;
  readonly chosen: readonly ResourceName[];
  readonly json: boolean;
}

function parseFlags(): Flags {
  const { values } = parseArgs({
    options: {
      trials: { type: "string", default: "10" },
      resource: { type: "string", multiple: true, default: [] },
      json: { type: "boolean", default: false },
    },
  });
  const { trials, resource, json } = values;
  if (!/^[1-9]\d{0,4}$/.test(trials))
    throw new Error(`--trials needs a whole number from 1 to 99999, got "${trials}".`);
  const unknown = resource.find((name) => !(names as string[]).includes(name));
  if (unknown !== undefined)
    throw new Error(`--resource expects one of ${names.join(", ")}, got "${unknown}".`);
  return { trials: Number(trials), chosen: resource as ResourceName[], json };
}

function readFlags(): Flags {
  try {
    return parseFlags();
  } catch (error) {
    console.error(`${(error as Error).message}
Usage: npm run proof -- [--trials N] [--resource ${names.join("|")}] [--json]`);
    process.exit(2);
  }
}

async function prove(resource: ResourceName, trials: number, folder: string): Promise<ProofLine> {
  const server = await resources[resource].start();
  const runGroup = async (
    index: number,
    isGuarded: boolean,
    count: number,
  ): Promise<TrialCounts> => {
    const name = `group_${isGuarded ? "guarded" : "bare"}_${index}`;
    const own = join(folder, resource, name);
    mkdirSync(own, { recursive: true });
    const leave = await enterGroup();
    try {
      const opened = await server.open({ folder: own, name, isGuarded });
      try {
        const writer = { resource, name, isGuarded };
        return await runTrials({ folder: own, writer, resource: opened, trials: count });
      } finally {
        await opened.close();
      }
    } finally {
      leave();
    }
  };
  const groups = Math.ceil(trials / TRIALS_PER_GROUP);
  const runAll = async (isGuarded: boolean) => {
    const counts = await Promise.all(
      Array.from({ length: groups }, (_, index) => {
        const count = Math.floor(trials / groups) + (index < trials % groups ? 1 : 0);
        return runGroup(index, isGuarded, count);
      }),
    );
    return {
      staleTried: sum(counts.map(({ staleTried }) => staleTried)),
      staleAccepted: sum(counts.map(({ staleAccepted }) => staleAccepted)),
      secondsPerTrial: Number((sum(counts.map(({ seconds }) => seconds)) / trials).toFixed(2)),
    };
  };
  try {
    const [guarded, bare] = await Promise.all([runAll(true), runAll(false)]);
    return {
      resource,
      trials,
      staleTried: guarded.staleTried,
      staleAccepted: guarded.staleAccepted,
      staleAcceptedWithoutGuard: bare.staleAccepted,
      secondsPerTrial: guarded.secondsPerTrial,
      secondsPerTrialWithoutGuard: bare.secondsPerTrial,
    };
  } finally {
    await server.close();
  }
}

let running = 0;
const waiting: (() => void)[] = [];

/** Waits for a free place, first come, first served; resolves with a function that frees it. */
async function enterGroup(): Promise<() => void> {
  if (running < GROUPS_MAX) running += 1;
  else await new Promise<void>((enter) => void waiting.push(enter));
  return () => {
    const next = waiting.shift();
    // The next one takes over this place, so the count stays the same.
    if (next === undefined) running -= 1;
    else next();
  };
}

function findFault(line: ProofLine): string | undefined {
  if (line.staleAccepted > 0) return "stale writes were accepted";
  if (line.staleTried < line.trials) return "too few stale writes were tried";
  if (line.staleAcceptedWithoutGuard === 0)
    return "without the guard none was accepted, so the count proves nothing";
  return undefined;
}

function format(line: ProofLine, fault: string | undefined): string {
  const { resource, trials, staleTried, staleAccepted, staleAcceptedWithoutGuard } = line;
  const counts = `${trials} trials, ${staleTried} stale writes tried, ${staleAccepted} accepted`;
  const seconds = `${line.secondsPerTrial} and ${line.secondsPerTrialWithoutGuard} s per trial`;
  const failed = fault === undefined ? "" : `   FAILED: ${fault}`;
  return `${resource.padEnd(9)} ${counts}; without the guard ${staleAcceptedWithoutGuard} accepted; ${seconds}${failed}`;
}

const flags = readFlags();
const folder = mkdtempSync(join(tmpdir(), "tenure-proof-"));
let isProven = true;
try {
  const chosen = flags.chosen.length === 0 ? names : flags.chosen;
  if (!flags.json) console.log(`${flags.trials} trials each: ${chosen.join(", ")} ...`);
  await Promise.all(
    chosen.map(async (resource) => {
      try {
        const line = await prove(resource, flags.trials, folder);
        const fault = findFault(line);
        if (fault !== undefined) isProven = false;
        console.log(flags.json ? JSON.stringify(line) : format(line, fault));
      } catch (error) {
        const cannotRun = error instanceof CannotRunError;
        // A server that cannot run here is skipped, unless it was asked for by name.
        if (!cannotRun || flags.chosen.includes(resource)) isProven = false;
        console.error(`${resource}: ${cannotRun ? `skipped: ${error.message}` : String(error)}`);
      }
    }),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(isProven ? 0 : 1);
