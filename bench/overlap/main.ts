// `npm run overlap`: how long two holders act at once when the first is cut off silently, for our stores and, on demand, for
// the peers, on real servers. docs/overlap.md has the method and the published figures.
import { CannotRunError } from "../../test/servers/engine.ts";
import { disposeAll, type RunningServer } from "../../test/servers/server.ts";
import { loadPeer } from "../peers/install.ts";
import { endAll } from "./children.ts";
import {
  type Contestant,
  contestantsOf,
  type EngineId,
  engines,
  versionOf,
} from "./contestants.ts";
import { type Figures, figuresOf, type Row, table } from "./figures.ts";
import { FlagError, type Flags, parseFlags, USAGE } from "./flags.ts";
import { runTrial, SpoiltTrialError, type TrialResult } from "./trial.ts";

/** Most of a trial is waiting; more at a time would only make the machine slow. */
const AT_A_TIME = 8;
/** A machine that spoils more than this is not fit to measure on. */
const SPOILT_MAX_SHARE = 0.2;

const servers = new Map<EngineId, RunningServer>();

async function main(): Promise<number> {
  const flags = readFlags();
  if (typeof flags === "number") return flags;
  // With --json, stdout has nothing but the lines.
  const say = flags.json ? console.error : console.log;
  // Whichever is loaded first installs them all, where they are missing.
  if (flags.peers) await loadPeer("ioredis");
  const rows: Row[] = [];
  const missing: string[] = [];
  for (const contestant of contestantsOf(flags.stores, flags.peers)) {
    try {
      const server = await serverOf(contestant.engine);
      const row = await measure(contestant, server, { trials: flags.trials, say });
      rows.push(row);
      if (flags.json) console.log(JSON.stringify(row.figures));
    } catch (error) {
      if (!(error instanceof CannotRunError)) throw error;
      say(`${contestant.name}: ${error.message}`);
      missing.push(contestant.name);
    }
  }
  say(`\n${table(rows)}`);
  return verdict(rows, missing, say);
}

function readFlags(): Flags | number {
  try {
    const flags = parseFlags(process.argv.slice(2));
    if (flags !== undefined) return flags;
    console.log(USAGE);
    return 0;
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    console.error(`${error.message}\n\n${USAGE}`);
    return 2;
  }
}

async function serverOf(engine: EngineId): Promise<RunningServer> {
  const running = servers.get(engine) ?? (await engines[engine]());
  servers.set(engine, running);
  return running;
}

interface Asked {
  readonly trials: number;
  readonly say: (line: string) => void;
}

async function measure(
  contestant: Contestant,
  server: RunningServer,
  { trials, say }: Asked,
): Promise<Row> {
  const version = await versionOf(contestant);
  say(`${version}: ${trials} trials`);
  const results: TrialResult[] = [];
  let spoilt = 0;
  let left = trials;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      try {
        results.push(await runTrial(contestant, server));
      } catch (error) {
        if (!(error instanceof SpoiltTrialError)) throw error;
        say(`  a trial is repeated: ${error.message}`);
        spoilt += 1;
        left += 1;
        if (spoilt > 2 + trials * SPOILT_MAX_SHARE)
          throw new Error(`${spoilt} trials were spoilt; the last: ${error.message}.`);
      }
      if (results.length % 10 === 0) say(`  ${results.length} of ${trials}`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, trials) }, lane));
  const neverTold = results.filter(({ toldMs }) => toldMs === undefined).length;
  return { version, figures: figuresOf(contestant.name, results), neverTold };
}

function verdict(rows: readonly Row[], missing: readonly string[], say: Asked["say"]): number {
  const isOurs = ({ name }: Figures): boolean => Object.hasOwn(engines, name);
  const overlapping = rows
    .map((row) => row.figures)
    .filter((each) => isOurs(each) && each.overlaps > 0);
  for (const { name, overlaps, trials } of overlapping)
    say(`FAIL: our store on ${name} overlapped in ${overlaps} of ${trials} trials.`);
  if (missing.length > 0) say(`FAIL: not measured, see above: ${missing.join(", ")}.`);
  return overlapping.length + missing.length > 0 ? 1 : 0;
}

async function cleanUp(): Promise<void> {
  await endAll();
  await disposeAll([...servers.values()]);
}

let isStopped = false;
// A second signal ends it at once; then the servers' own watchdog cleans up.
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const) {
  process.once(signal, () => {
    isStopped = true;
    console.error(`stopped by ${signal}`);
    void cleanUp().finally(() => process.exit(code));
  });
}

try {
  const code = await main();
  await cleanUp();
  process.exitCode = code;
} catch (error) {
  // A run that was told to stop fails in many places; only the signal is worth a word.
  if (!isStopped) {
    console.error((error as Error).message);
    await cleanUp();
    process.exit(1);
  }
}
