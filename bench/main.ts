// `npm run bench`: every benchmark in turn, then RESULTS.md with date, machine and command. Figures are ratios within
// this run; the exit code tells whether all targets were reached. With names as arguments only those are run, and
// nothing is written; with --quick the engines are measured only as long as it takes to see that it works.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { checkCost } from "./check-cost.ts";
import { engineBenchmarks } from "./engines/run.ts";
import { guards } from "./guards.ts";
import { remoteGuards } from "./guards-remote.ts";
import { handover } from "./handover.ts";
import { manyLeases } from "./many-leases.ts";
import { rollingRestart } from "./rolling-restart.ts";
import { sqlitePairs } from "./sqlite-pairs.ts";
import { machine, type Row, type Section } from "./support.ts";

const quick = process.argv.includes("--quick");
const engines = Object.entries(engineBenchmarks).map(
  ([name, run]): [string, () => Promise<Section[]>] => [name, () => run({ quick })],
);
const benchmarks: Record<string, () => Promise<Section | Section[]>> = {
  check: checkCost,
  sqlite: sqlitePairs,
  handover,
  many: manyLeases,
  guards,
  "guards-remote": remoteGuards,
  restart: () => rollingRestart({ quick }),
  ...Object.fromEntries(engines),
};

const asked = process.argv.slice(2).filter((word) => word !== "--quick");
const chosen = Object.entries(benchmarks).filter(
  ([name]) => asked.length === 0 || asked.includes(name),
);
if (chosen.length === 0) {
  console.error(`No benchmark of that name. There are: ${Object.keys(benchmarks).join(", ")}.`);
  process.exit(2);
}

const sections: Section[] = [];
for (const [index, [name, run]] of chosen.entries()) {
  console.log(`[${index + 1}/${chosen.length}] ${name} ...`);
  for (const section of [await run()].flat()) {
    sections.push(section);
    console.log(`  ${section.title}`);
    for (const row of section.rows) console.log(`    ${plain(row)}`);
  }
}

if (asked.length === 0 && !quick) {
  writeFileSync(fileURLToPath(new URL("./RESULTS.md", import.meta.url)), document(sections));
  console.log("\nwritten to bench/RESULTS.md");
}
const missed = sections.flatMap((section) => section.rows).filter((row) => row.ok === false);
console.log(missed.length === 0 ? "all targets reached" : `${missed.length} target(s) missed`);
process.exitCode = missed.length === 0 ? 0 : 1;

function plain(row: Row): string {
  const verdict = row.ok === undefined ? "" : row.ok ? "  ok" : "  MISSED";
  return `${row.what.padEnd(62)} ${row.measured}${row.target === undefined ? "" : `  (${row.target})`}${verdict}`;
}

function document(all: readonly Section[]): string {
  const tables = all.map((section) => {
    const lines = section.rows.map((row) => {
      const verdict = row.ok === undefined ? "" : row.ok ? "reached" : "**missed**";
      return `| ${row.what} | ${row.measured} | ${row.target ?? ""} | ${verdict} |`;
    });
    return `## ${section.title}\n\n${section.method}\n\n| what | measured | target | |\n|---|---|---|---|\n${lines.join("\n")}\n`;
  });
  const head = `# Results\n\nWritten by \`npm run bench\` on ${new Date().toISOString().slice(0, 10)}.\nMachine: ${machine()}.\nCompare ratios, not absolute figures: they depend on the disk and on what else the machine does.\n`;
  return `${head}\n${tables.join("\n")}`;
}
