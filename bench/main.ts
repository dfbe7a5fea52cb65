// `npm run bench` measures what a lease costs; `npm run bench:peers` measures the same next to
// other libraries, also in Go and Java, and their safety. Prints a table per measurement, and
// writes bench/results/<date>.json.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { check } from "./check.ts";
import { contention, requestsPerLock } from "./contention.ts";
import { failover } from "./failover.ts";
import { guards } from "./guards.ts";
import { handover } from "./handover.ts";
import { held } from "./held.ts";
import { httpGuards } from "./http-guard.ts";
import { pairs } from "./pairs.ts";
import { buildPeers, type Commands, listForeignPinned } from "./peers/build.ts";
import { installPeers, listPinned } from "./peers/install.ts";
import { packageSize } from "./peers/package-size.ts";
import { overlap, proof } from "./peers/safety-commands.ts";
import { stopped } from "./peers/stopped.ts";
import { tokens } from "./peers/tokens.ts";
import { restarts } from "./restarts.ts";
import {
  describeMachine,
  failedRow,
  formatSection,
  readRun,
  readVersions,
  type Section,
  writeRun,
} from "./results.ts";
import { revocation } from "./revocation.ts";
import { type Engine, engines, Servers } from "./servers.ts";
import { start } from "./start.ts";
import type { Topic } from "./topic.ts";
import { waiters } from "./waiters.ts";

/** In the order in which they are measured. */
const topics: Readonly<Record<string, Topic>> = {
  check,
  pairs,
  handover,
  contention,
  requests: requestsPerLock,
  failover,
  restarts,
  start,
  waiters,
  revocation,
  held,
  guards,
  http: httpGuards,
  package: packageSize,
  tokens,
  overlap,
  stopped,
  proof,
};

/** What each command measures if no topic is named. */
const defaults: Readonly<Record<string, readonly string[]>> = {
  bench: [
    "check",
    "pairs",
    "handover",
    "failover",
    "restarts",
    "waiters",
    "held",
    "guards",
    "http",
  ],
  "bench:peers": Object.keys(topics).filter((name) => name !== "http"),
};

const USAGE = `npm run bench -- [topic ...] [--quick] [--store A,B] [--compare FILE]
npm run bench:peers -- the same, next to other libraries

  topic           ${Object.keys(topics).join(", ")}
  --quick         measure just enough to see that everything works
  --store A,B     only these: ${engines.join(", ")}
  --compare FILE  print the values of an earlier run next to the new ones: bench/results/<date>.json

bench:peers installs the Node libraries into bench/peers, and builds the workers in Go (redislock,
etcd's concurrency.Mutex) and Java (Redisson, Curator) into node_modules/.cache. It prints what is
skipped because go, mvn, java or javac is missing. These topics include them:

  contention      1, 2 and 8 processes on one lock: locks per second, fairness, longest wait; one process
                  also against two plain writes
  requests        requests at the server for one lock
  handover        from release to the next holder, against a bare notification; on etcd also after 100 ms
  waiters         requests per second of 100 waiters, and for a handover
  held            requests in 30 s of 10,000 locks
  revocation      (only Tenure) from revoke() to lease.signal, against a bare notification

A ratio above 1 means that Tenure is better. Every server runs on 127.0.0.1 and is stopped at the end.

Exit code 0: all targets were reached. 1: one was missed, or a measurement failed. 2: a bad argument.`;

interface Flags {
  readonly names: readonly string[];
  readonly stores: readonly Engine[];
  readonly quick: boolean;
  readonly peers: boolean;
  readonly compare: string | undefined;
}

function parseFlags(): Flags {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      peers: { type: "boolean", default: false },
      store: { type: "string", default: engines.join(",") },
      compare: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const { quick, peers, compare, help } = values;
  if (help) {
    console.log(USAGE);
    process.exit(0);
  }
  const asked = positionals.length > 0 ? positionals : defaults[peers ? "bench:peers" : "bench"];
  const names = Object.keys(topics).filter((name) => asked?.includes(name));
  const stores = values.store.split(",");
  const known: readonly string[] = [...Object.keys(topics), ...engines];
  const unknown = [...positionals, ...stores].find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`There is no topic or store "${unknown}".`);
  return { names, stores: engines.filter((name) => stores.includes(name)), quick, peers, compare };
}

function readFlags(): Flags {
  try {
    return parseFlags();
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(2);
  }
}

async function main({ names, stores, quick, peers, compare }: Flags): Promise<number> {
  const earlier = compare === undefined ? undefined : readRun(compare);
  const startedAt = new Date();
  if (peers) await installPeers();
  const commands: Commands = peers ? await buildPeers() : new Map();
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-"));
  const sections: Section[] = [];
  const show = (section: Section): void => {
    sections.push(section);
    console.log(`\n${formatSection(section, earlier)}`);
  };
  try {
    await using servers = new Servers(folder);
    for (const name of names) {
      console.log(`\n[${formatClock(Date.now() - startedAt.getTime())}] ${name} ...`);
      const context = { quick, withPeers: peers, commands, engines: stores, servers };
      try {
        for await (const section of topics[name]?.(context) ?? []) show(section);
      } catch (error) {
        // The other topics are still measured.
        console.error(error);
        show({ title: name, method: "", rows: [failedRow("all of it", error, true)] });
      }
    }
    const file = writeRun({
      command: `${peers ? "bench:peers" : "bench"} ${process.argv.slice(2).join(" ")}`.trim(),
      startedAt: startedAt.toISOString(),
      machine: describeMachine(),
      versions: [
        ...readVersions(),
        ...(await servers.versions()),
        ...(peers ? listPinned() : []),
        ...listForeignPinned(commands),
      ],
      sections,
    });
    console.log(`\nwritten to ${file}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const missed = sections.flatMap(({ rows }) => rows).filter(({ ok }) => ok === false).length;
  const took = formatClock(Date.now() - startedAt.getTime());
  console.log(`${missed === 0 ? "all targets reached" : `${missed} targets missed`} in ${took}`);
  return missed === 0 ? 0 : 1;
}

/** "2:45" */
function formatClock(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

const flags = readFlags();
try {
  process.exitCode = await main(flags);
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}
