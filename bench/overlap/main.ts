// `npm run overlap`: how long two holders act at once when the first is cut off silently, for
// Tenure's stores and, with --peers, for other libraries, on real servers. docs/overlap.md has the
// method.
import { CannotRunError } from "../../test/servers/engine.ts";
import type { RunningServer } from "../../test/servers/server.ts";
import { installPeers } from "../peers/install.ts";
import { Servers } from "../servers.ts";
import { endWorkers } from "../workers.ts";
import { type Contestant, describeVersion, listContestants } from "./contestants.ts";
import { formatTable, type Row, toRow } from "./figures.ts";
import { FlagError, type Flags, parseFlags, USAGE } from "./flags.ts";
import { runTrial, SpoiltTrialError, type TrialResult } from "./trial.ts";

/** A trial mostly waits; more at a time would slow down the machine. */
const AT_A_TIME = 8;
/** A machine that spoils more than this share of the trials is too busy to measure on. */
const SPOILT_MAX_SHARE = 0.2;

const servers = new Servers("");

async function main({ trials, stores, peers, json }: Flags): Promise<number> {
  // With --json, stdout has only the lines of JSON.
  const say = json ? console.error : console.log;
  if (peers) await installPeers();
  const rows: Row[] = [];
  const failures: string[] = [];
  for (const contestant of listContestants(stores, peers)) {
    try {
      const server = await servers.start(contestant.engine);
      const row = await measure(contestant, server, trials, say);
      rows.push(row);
      if (json) console.log(JSON.stringify(row.figures));
      const { name, overlaps } = row.figures;
      if (contestant.peer === undefined && overlaps > 0)
        failures.push(`Tenure's store on ${name} overlapped in ${overlaps} of ${trials} trials`);
    } catch (error) {
      if (!(error instanceof CannotRunError)) throw error;
      say(`${contestant.name}: ${error.message}`);
      failures.push(`${contestant.name} was not measured, see above`);
    }
  }
  say(`\n${formatTable(rows)}`);
  for (const failure of failures) say(`FAIL: ${failure}.`);
  return failures.length > 0 ? 1 : 0;
}

async function measure(
  contestant: Contestant,
  server: RunningServer,
  trials: number,
  say: (line: string) => void,
): Promise<Row> {
  const version = await describeVersion(contestant);
  say(`${version}: ${trials} trials`);
  const results: TrialResult[] = [];
  let spoilt = 0;
  let left = trials;
  const runTrials = async (): Promise<void> => {
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
          throw new Error(`${spoilt} trials measured nothing; the last: ${error.message}.`);
      }
      if (results.length % 10 === 0) say(`  ${results.length} of ${trials}`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, trials) }, runTrials));
  return toRow(contestant.name, version, results);
}

async function cleanUp(): Promise<void> {
  endWorkers();
  await servers[Symbol.asyncDispose]();
}

let isStopped = false;
// A second signal ends the process immediately; the servers' own watchdog then cleans up.
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
  const flags = parseFlags(process.argv.slice(2));
  if (flags === undefined) console.log(USAGE);
  else {
    const code = await main(flags);
    await cleanUp();
    process.exitCode = code;
  }
} catch (error) {
  if (error instanceof FlagError) {
    console.error(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
  // After a signal many calls fail, and their errors say nothing more.
  if (!isStopped) {
    console.error((error as Error).message);
    await cleanUp();
    process.exit(1);
  }
}
