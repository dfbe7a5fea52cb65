// `npm run bench`: every benchmark in turn. `npm run bench:peers`: the comparison with other libraries. Either writes its part
// of results.json and RESULTS.md. Figures are ratios within one run; the exit code tells whether all targets were reached. Where
// peers could not be installed nothing is written, and the exit code says so. With names as arguments only those are run: of the
// comparison these are parts of it (`peerBenchmarks` has their names). With --quick it is measured only as long as it takes to
// see that it works. Quick or named, it writes nothing unless --write says so, and of named ones it replaces only their tables.
// --redraw measures nothing: it makes the tables, the pictures and docs/comparison.md again from results.json.

import { checkCost } from "./check-cost.ts";
import { peerBenchmarks } from "./compare/peers.ts";
import { engineBenchmarks } from "./engines/run.ts";
import { guards } from "./guards.ts";
import { httpHolder } from "./guards-http.ts";
import { remoteGuards } from "./guards-remote.ts";
import { handover } from "./handover.ts";
import { manyLeases } from "./many-leases.ts";
import { leftOut } from "./peers/install.ts";
import { stamped } from "./provenance.ts";
import { type Command, publish, redraw, unpublishable } from "./report.ts";
import { rollingRestart } from "./rolling-restart.ts";
import { sqlitePairs } from "./sqlite-pairs.ts";
import type { Row, Section } from "./support.ts";

type Benchmarks = Record<string, () => Promise<Section | Section[]>>;

const flags = process.argv.slice(2).filter((word) => word.startsWith("--"));
const asked = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const quick = flags.includes("--quick");
const command: Command = flags.includes("--peers") ? "bench:peers" : "bench";

const engines = Object.entries(engineBenchmarks).map(
  ([name, run]): [string, () => Promise<Section[]>] => [name, () => run({ quick })],
);
const own: Benchmarks = {
  check: checkCost,
  sqlite: sqlitePairs,
  handover,
  many: manyLeases,
  guards: () => guards(),
  "guards-remote": remoteGuards,
  "guards-http": httpHolder,
  restart: () => rollingRestart({ quick }),
  ...Object.fromEntries(engines),
};
const benchmarks: Benchmarks = command === "bench" ? own : peerBenchmarks(quick);
/** Of the comparison everything else is a part, and only run when it is named. */
const named = asked.length === 0 && command === "bench:peers" ? ["peers"] : asked;

const chosen = Object.entries(benchmarks).filter(
  ([name]) => named.length === 0 || named.includes(name),
);
if (chosen.length === 0) {
  console.error(`No benchmark of that name. There are: ${Object.keys(benchmarks).join(", ")}.`);
  process.exit(2);
}

if (flags.includes("--redraw")) {
  redraw();
  process.exit(0);
}

const begunAt = performance.now();
const sections: Section[] = [];
for (const [index, [name, run]] of chosen.entries()) {
  console.log(`[${index + 1}/${chosen.length}] ${name} ...`);
  for (const section of [await run()].flat()) {
    sections.push(await stamped(section));
    console.log(`  ${section.title}`);
    for (const row of section.rows) console.log(`    ${plain(row)}`);
  }
}

const refusal = unpublishable(leftOut());
if (refusal !== undefined) console.error(`\n${refusal}`);
else if (flags.includes("--write") || (asked.length === 0 && !quick)) {
  publish(command, sections, asked.length === 0 ? "all" : "some");
  console.log("\nwritten to bench/RESULTS.md, bench/results.json and docs/comparison.md");
}
const missed = sections.flatMap((section) => section.rows).filter((row) => row.ok === false);
console.log(missed.length === 0 ? "all targets reached" : `${missed.length} target(s) missed`);
console.log(`took ${clock(performance.now() - begunAt)} in all`);
process.exitCode = missed.length === 0 && refusal === undefined ? 0 : 1;

/** "2:45". */
function clock(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} minutes`;
}

function plain(row: Row): string {
  const verdict = row.ok === undefined ? "" : row.ok ? "  ok" : "  MISSED";
  return `${row.what.padEnd(62)} ${row.measured}${row.target === undefined ? "" : `  (${row.target})`}${verdict}`;
}
