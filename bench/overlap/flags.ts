// The command line of `npm run overlap`. Whatever is wrong with it is said in one sentence, before anything is started.
import { parseArgs } from "node:util";
import { type EngineId, engineIds } from "./contestants.ts";

export interface Flags {
  readonly trials: number;
  readonly stores: readonly EngineId[];
  readonly peers: boolean;
  readonly json: boolean;
}

/** The user's mistake; its message is for them. */
export class FlagError extends Error {}

const TRIALS_MAX = 100_000;

export const USAGE: string = `npm run overlap -- [--trials N] [--store ${engineIds.join(",")}] [--peers] [--json]

Cuts a lock's holder off silently and measures whether it still acts when the next one is let in.
  --trials N     trials per engine and peer, 1 to ${TRIALS_MAX} (default 20)
  --store A,B    only these engines (default: all of ${engineIds.join(", ")})
  --peers        also the peers that run on these engines, installed on demand
  --json         one line of JSON per engine or peer on stdout; progress and table on stderr

Exit code 0: none of our stores overlapped. 1: one did, or an engine is missing. 2: a bad flag.`;

/** Undefined: help was asked for. */
export function parseFlags(args: readonly string[]): Flags | undefined {
  const { values } = parse(args);
  if (values.help) return undefined;
  return {
    trials: trialsOf(values.trials),
    stores: storesOf(values.store),
    peers: values.peers ?? false,
    json: values.json ?? false,
  };
}

interface Parsed {
  readonly values: {
    readonly trials?: string | undefined;
    readonly store?: string[] | undefined;
    readonly peers?: boolean | undefined;
    readonly json?: boolean | undefined;
    readonly help?: boolean | undefined;
  };
}

function parse(args: readonly string[]): Parsed {
  try {
    return parseArgs({
      args: [...args],
      options: {
        trials: { type: "string" },
        store: { type: "string", multiple: true },
        peers: { type: "boolean" },
        json: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw new FlagError((error as Error).message);
  }
}

function trialsOf(text = "20"): number {
  const trials = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (trials >= 1 && trials <= TRIALS_MAX) return trials;
  throw new FlagError(`--trials needs a whole number from 1 to ${TRIALS_MAX}, got "${text}".`);
}

function storesOf(lists: readonly string[] = [engineIds.join(",")]): readonly EngineId[] {
  const names = lists.flatMap((list) => list.split(",")).map((name) => name.trim());
  for (const name of names) {
    if (!engineIds.includes(name as EngineId))
      throw new FlagError(`There is no store "${name}" here. Known are ${engineIds.join(", ")}.`);
  }
  return engineIds.filter((id) => names.includes(id));
}
