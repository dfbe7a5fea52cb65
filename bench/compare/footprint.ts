// What it costs to have each library: the time to import it, and what an install brings along.

import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { atMost, median, type Row, type Section, type Series } from "../support.ts";
import { type Comparison, type Measured, milliseconds } from "./comparison.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PEERS = fileURLToPath(new URL("../peers/", import.meta.url));
const run = promisify(execFile);
const IMPORT_MAX_MS = 30;
const NAMES = [
  "redlock",
  "redlock-universal",
  "redis-semaphore",
  "@verrou/core",
  "etcd3",
  "proper-lockfile",
];

/** Counted with strace, in the versions of bench/peers. */
const IMPORT_REASONS = {
  redlock: "loads less: 3 files, Tenure 17",
  "redlock-universal": "loads less: 1 file, Tenure 17",
};
const SIZE_REASON = "does less: no election, no guards, no command line";

export function importTimes(withPeers: boolean, imports: number): Comparison {
  const program = (module: string): string =>
    `const t = performance.now(); await import(${JSON.stringify(module)}); console.log(performance.now() - t);`;
  const time = async (module: string, cwd: string): Promise<Measured> => {
    const args = ["--input-type=module", "-e", program(module)];
    const times: number[] = [];
    for (let each = 0; each < imports; each += 1)
      times.push(Number((await run(process.execPath, args, { cwd })).stdout));
    return { figures: { import: median(times) } };
  };
  const peers = withPeers ? NAMES : [];
  return {
    title: "Import",
    method: `The first import in a fresh process, median of ${imports} a round; for peers without the client library of the server that they also need.`,
    figures: { import: milliseconds },
    contestants: [
      { name: "tenure", kind: "ours", measure: () => time("tenure", ROOT) },
      ...peers.map((name) => ({ name, kind: "peer" as const, measure: () => time(name, PEERS) })),
    ],
    isLong: true,
    limits: { import: IMPORT_MAX_MS },
    // They differ in what they do at all.
    isInformative: true,
    reasons: IMPORT_REASONS,
  };
}

export function sizes(withPeers: boolean): Section {
  const kB = (bytes: number): string => `${Math.round(bytes / 1_000)} kB`;
  const own = packedBytes();
  const series: Series[] = [];
  const add = (name: string, kind: Series["kind"], bytes: number): void => {
    series.push({ figure: "unpacked", unit: "kB", name, kind, values: [bytes / 1_000] });
  };
  add("tenure", "ours", own);
  const peers = (withPeers ? NAMES : []).map((name): Row => {
    const closure = closureOf(name);
    const bytes = [...closure].reduce(
      (sum, each) => sum + bytesIn(folderOf(each), ["node_modules"]),
      0,
    );
    add(name, "peer", bytes);
    const row = {
      what: `${name} and what it depends on`,
      measured: `${kB(bytes)}, ${closure.size - 1} dependencies`,
    };
    return bytes < own ? { ...row, ahead: { peer: name, why: SIZE_REASON } } : row;
  });
  return {
    title: "Package",
    method: "Bytes as unpacked, and how many other packages an install brings along.",
    rows: [
      atMost("tenure", own, 700_000, kB),
      atMost(
        "tenure: dependencies",
        Object.keys(manifestOf(ROOT).dependencies ?? {}).length,
        0,
        String,
      ),
      ...peers,
    ],
    series,
  };
}

/** What npm would put into the package: not all that is built is shipped. */
function packedBytes(): number {
  const output = execFileSync("npm pack --dry-run --json --ignore-scripts", {
    ...{ cwd: ROOT, encoding: "utf8", shell: true, stdio: ["ignore", "pipe", "ignore"] },
  });
  const [pack] = JSON.parse(output) as { readonly unpackedSize: number }[];
  if (pack === undefined) throw new Error("npm pack said nothing.");
  return pack.unpackedSize;
}

interface Manifest {
  readonly dependencies?: Record<string, string>;
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

function folderOf(name: string): string {
  return join(PEERS, "node_modules", name);
}

/** The package and all that it needs, as far as it is installed. */
function closureOf(name: string, seen: Set<string> = new Set()): Set<string> {
  if (seen.has(name) || !existsSync(folderOf(name))) return seen;
  seen.add(name);
  for (const each of Object.keys(manifestOf(folderOf(name)).dependencies ?? {}))
    closureOf(each, seen);
  return seen;
}

function bytesIn(path: string, without: readonly string[] = []): number {
  if (!existsSync(path)) return 0;
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.size;
  return readdirSync(path)
    .filter((name) => !without.includes(name))
    .reduce((sum, name) => sum + bytesIn(join(path, name)), 0);
}
