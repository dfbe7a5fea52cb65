// The tables of `npm run overlap` and `npm run proof` for the comparison: whether two holders act
// at once when the first is cut off, and which late writes the guards accept. Both commands run as
// child processes and print one line of JSON per contestant.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Figures } from "../overlap/figures.ts";
import type { ProofLine } from "../proof/main.ts";
import { atMost, failedRow, type Row, type Section } from "../results.ts";
import { serverEngines } from "../servers.ts";
import type { Context } from "../topic.ts";
import { peers } from "./peers.ts";

export async function* overlap(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, engines } = context;
  const trials = quick ? 2 : 20;
  const stores = serverEngines.filter((engine) => engines.includes(engine));
  const args = ["--trials", String(trials), "--store", stores.join(",")];
  const { lines, failures } = await run<Figures>(
    "overlap",
    withPeers ? [...args, "--peers"] : args,
  );
  const excluded = withPeers ? peers.filter((peer) => peer.cannotBeCutOff !== undefined) : [];
  yield {
    title: "Safety: the holder is cut off silently",
    method: `${trials} trials each, ttl 2 s, see docs/overlap.md. Above 0, two holders acted at once for that long. Our timer extends verrou's locks.`,
    rows: [
      ...lines.flatMap(toOverlapRows),
      ...excluded.map(({ name, cannotBeCutOff = "" }) => ({
        label: name,
        measured: `not measured: ${cannotBeCutOff}`,
      })),
      ...failures,
    ],
  };
}

function toOverlapRows({ name, overlapMsMax, holderToldMsP99 }: Figures): Row[] {
  const isTenure = (serverEngines as readonly string[]).includes(name);
  const show = (ms: number): string => `${ms} ms`;
  const who = isTenure ? `tenure on ${name}` : name;
  const [label, worst] = [`${who}: longest overlap`, overlapMsMax ?? Number.NaN];
  return [
    isTenure ? atMost(label, worst, 0, show) : { label, measured: show(worst) },
    {
      label: `${who}: the first holder is notified after`,
      measured: holderToldMsP99 === null ? "never, in some trials" : show(holderToldMsP99),
    },
  ];
}

export async function* proof({ quick }: Context): AsyncGenerator<Section> {
  const trials = quick ? 3 : 100;
  const { lines, failures } = await run<ProofLine>("proof", ["--trials", String(trials)]);
  const rows = lines.flatMap(
    ({ resource, staleTried, staleAccepted, staleAcceptedWithoutGuard }) => [
      atMost(
        `${resource}: accepted with the guard`,
        staleAccepted,
        0,
        (n) => `${n} of ${staleTried}`,
      ),
      { label: `${resource}: accepted without it`, measured: String(staleAcceptedWithoutGuard) },
    ],
  );
  yield {
    title: "Safety: late writes of stopped and cut-off holders",
    method: `${trials} trials for each resource, counted at the resource, with its guard and without.`,
    rows: [...rows, ...failures],
  };
}

interface Output<Line> {
  readonly lines: Line[];
  /** One row if the command failed, with the last line that it wrote to stderr. */
  readonly failures: Row[];
}

async function run<Line>(command: "overlap" | "proof", args: string[]): Promise<Output<Line>> {
  const main = fileURLToPath(new URL(`../${command}/main.ts`, import.meta.url));
  const program = promisify(execFile)(process.execPath, [
    "--import",
    "tsx",
    main,
    ...args,
    "--json",
  ]);
  const { stdout, stderr, code } = await program.then(
    (output) => ({ ...output, code: 0 }),
    (error: { stdout: string; stderr: string; code: number }) => error,
  );
  const [last = ""] = stderr.trim().split("\n").slice(-1);
  const lines = stdout.split("\n").filter(Boolean);
  return {
    lines: lines.map((line) => JSON.parse(line) as Line),
    failures: code === 0 ? [] : [failedRow(`npm run ${command}`, last, true)],
  };
}
