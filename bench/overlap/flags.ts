// The command line of `npm run overlap`.
import { parseArgs } from "node:util";
import { type ServerEngine, serverEngines } from "../servers.ts";

export interface Flags {
  readonly trials: number;
  readonly stores: readonly ServerEngine[];
  readonly peers: boolean;
  readonly json: boolean;
}

/** A mistake on the command line; the message is for the user. */
export class FlagError extends Error {}

const TRIALS_MAX = 100_000;

export const USAGE: string = `npm run overlap -- [--trials N] [--store ${serverEngines.join(",")}] [--peers] [--json]

Cuts off the holder of a lock silently, and measures whether it still acts when the next one is granted.
  --trials N     trials per engine and peer, 1 to ${TRIALS_MAX} (default 20)
  --store A,B    only these engines (default: all of ${serverEngines.join(", ")})
  --peers        also the peers that run on these engines, installed on demand
  --json         one line of JSON per engine or peer on stdout; progress and table on stderr

Exit code 0: none of Tenure's stores overlapped. 1: one did, or an engine is missing. 2: a bad flag.`;

/** Undefined if the user asked for help. */
export function parseFlags(args: readonly string[]): Flags | undefined {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        trials: { type: "string", default: "20" },
        store: { type: "string", multiple: true, default: [...serverEngines] },
        peers: { type: "boolean", default: false },
        json: { type: "boolean", default: false },
        help: { type: "boolean", short: "h" },
      },
    });
    if (values.help) return undefined;
    const { peers, json } = values;
    return { trials: parseTrials(values.trials), stores: parseStores(values.store), peers, json };
  } catch (error) {
    throw error instanceof FlagError ? error : new FlagError((error as Error).message);
  }
}

function parseTrials(text: string): number {
  const trials = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (trials >= 1 && trials <= TRIALS_MAX) return trials;
  throw new FlagError(`--trials needs a whole number from 1 to ${TRIALS_MAX}, got "${text}".`);
}

function parseStores(lists: readonly string[]): readonly ServerEngine[] {
  const names = lists.flatMap((list) => list.split(",")).map((name) => name.trim());
  const known: readonly string[] = serverEngines;
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new FlagError(`--store expects some of ${known.join(", ")}, got "${unknown}".`);
  return serverEngines.filter((engine) => names.includes(engine));
}
