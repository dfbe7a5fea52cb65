// What no speed makes up for: whether two hold at once when the first is cut off, when it is told, and which late writes our
// guards let through. The trials are those of `npm run overlap` and `npm run proof`.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { contestantsOf, engineIds, uncuttable } from "../overlap/contestants.ts";
import { figuresOf } from "../overlap/figures.ts";
import { runTrial, SpoiltTrialError, type TrialResult } from "../overlap/trial.ts";
import { atMost, type Row, type Section } from "../support.ts";
import { inLanes, type ServerOf } from "./ground.ts";

const PROOF = fileURLToPath(new URL("../proof/main.ts", import.meta.url));
const AT_A_TIME = 8;

export async function overlapSection(
  serverOf: ServerOf,
  { trials, withPeers }: { readonly trials: number; readonly withPeers: boolean },
): Promise<Section> {
  const contestants = contestantsOf(engineIds, withPeers);
  const results = new Map(contestants.map((each) => [each, [] as TrialResult[]]));
  const jobs = contestants.flatMap((each) => Array.from({ length: trials }, () => each));
  await inLanes(jobs, AT_A_TIME, async (next) => {
    try {
      results.get(next)?.push(await runTrial(next, serverOf(next.engine)));
    } catch (error) {
      // Counted below by its absence: a trial in which nothing was cut measures nothing.
      if (!(error instanceof SpoiltTrialError)) throw error;
    }
  });
  const absent = Object.entries(withPeers ? uncuttable : {});
  return {
    title: "Safety: the holder is cut off silently",
    method: `${trials} trials each, ttl 2 s, method of docs/overlap.md. Above 0: two acted at once for so long; told: when the first knew, ${trials < 100 ? "the worst of them" : "p99"}. verrou is extended by a timer of ours, as its page asks of whoever holds for longer.`,
    rows: [
      ...[...results].flatMap(([{ name, isOurs }, all]) =>
        rowsOf(isOurs ? `tenure on ${name}` : name, isOurs, all),
      ),
      ...absent.map(([what, why]) => ({ what, measured: `takes no part: ${why}` })),
    ],
  };
}

function rowsOf(name: string, isOurs: boolean, all: readonly TrialResult[]): Row[] {
  const { trials, overlapMsMax, holderToldMsP99 } = figuresOf(name, all);
  const show = (value: number): string => `${value} ms`;
  const what = `${name}: longest overlap (${trials} trials)`;
  const told = holderToldMsP99 === null ? "never, in some trials" : show(holderToldMsP99);
  const worst = overlapMsMax ?? Number.NaN;
  if (trials === 0) {
    const row = { what: name, measured: "not measured: no trial in which the cut hit a holder" };
    return [isOurs ? { ...row, ok: false } : row];
  }
  return [
    isOurs ? atMost(what, worst, 0, show) : { what, measured: show(worst) },
    { what: `${name}: the first is told after`, measured: told },
  ];
}

interface ProofLine {
  readonly resource: string;
  readonly staleTried: number;
  readonly staleAccepted: number;
  readonly staleAcceptedWithoutGuard: number;
}

export async function zombieSection(trials: number): Promise<Section> {
  const args = ["--import", "tsx", PROOF, "--trials", String(trials), "--json"];
  // Its code says that something failed; the lines say what, and the rows show it.
  const { stdout } = await promisify(execFile)(process.execPath, args).catch(
    (error: { stdout: string }) => error,
  );
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as ProofLine);
  return {
    title: "Safety: late writes of stopped and cut-off holders",
    method: `${trials} trials for each resource, counted at the resource, with its guard and without.`,
    rows: lines.flatMap(({ resource, staleTried, staleAccepted, staleAcceptedWithoutGuard }) => [
      atMost(`${resource}: accepted of ${staleTried}, with the guard`, staleAccepted, 0, String),
      { what: `${resource}: accepted without it`, measured: String(staleAcceptedWithoutGuard) },
    ]),
  };
}
