// The results of a run: tables for the terminal, and one JSON file per run in bench/results, which
// git ignores. A run can be printed next to an earlier one, read from its file.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../", import.meta.url);
const FOLDER = new URL("./results/", import.meta.url);

/** One line of a table. */
export interface Row {
  /** The same in every run, so that runs can be compared. */
  readonly label: string;
  readonly measured: string;
  /** Smallest and largest value. */
  readonly range?: string;
  readonly target?: string;
  /** Whether the target was reached. */
  readonly ok?: boolean;
  /** Why a peer is ahead of Tenure here. */
  readonly note?: string;
}

/** The values of one contestant behind the rows. */
export interface Series {
  readonly figure: string;
  readonly unit: string;
  readonly name: string;
  readonly kind: "tenure" | "baseline" | "peer";
  readonly values: readonly number[];
}

export interface Section {
  readonly title: string;
  readonly method: string;
  readonly rows: readonly Row[];
  readonly series?: readonly Series[];
}

export interface Run {
  readonly command: string;
  readonly startedAt: string;
  readonly machine: string;
  /** Tenure with its commit, client libraries and servers. */
  readonly versions: readonly string[];
  readonly sections: readonly Section[];
}

export function atMost(
  label: string,
  value: number,
  limit: number,
  show: (value: number) => string,
): Row {
  return { label, measured: show(value), target: `<= ${show(limit)}`, ok: value <= limit };
}

/** A contestant that could not be measured. That fails the run only if it is Tenure. */
export function failedRow(label: string, error: unknown, isTenure: boolean): Row {
  const message = error instanceof Error ? error.message : String(error);
  const row = { label, measured: `failed: ${message.split("\n")[0]}` };
  return isTenure ? { ...row, ok: false } : row;
}

/** One section as a table; with an earlier run, also the value that it had for each row. */
export function formatSection({ title, method, rows }: Section, earlier?: Run): string {
  const before = earlier?.sections.find((section) => section.title === title);
  const lines = rows.map(({ label, measured, range = "", target = "", ok, note = "" }) => {
    const was = before?.rows.find((row) => row.label === label)?.measured;
    const verdict = ok === undefined ? note : ok ? "ok" : "MISSED";
    return [label, measured, range, target, verdict, was === undefined ? "" : `earlier: ${was}`];
  });
  return `${title}\n  ${method}\n${formatColumns(lines)}`;
}

function formatColumns(lines: readonly (readonly string[])[]): string {
  const widths = [0, 1, 2, 3, 4].map((column) =>
    Math.min(64, Math.max(0, ...lines.map((line) => line[column]?.length ?? 0))),
  );
  return lines
    .map((line) => `    ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`)
    .map((line) => line.trimEnd())
    .join("\n");
}

/** Returns the path of the new file, which is named after the time at which the run started. */
export function writeRun(run: Run): string {
  mkdirSync(FOLDER, { recursive: true });
  const file = new URL(`${run.startedAt.slice(0, 19).replaceAll(":", "")}.json`, FOLDER);
  writeFileSync(file, `${JSON.stringify(run, undefined, 1)}\n`);
  return fileURLToPath(file);
}

export function readRun(path: string): Run {
  return JSON.parse(readFileSync(path, "utf8")) as Run;
}

export function describeMachine(): string {
  const cores = cpus();
  const memoryGiB = Math.round(totalmem() / 2 ** 30);
  const model = cores[0]?.model ?? "unknown";
  return `${cores.length} x ${model}, ${memoryGiB} GiB, ${process.platform} ${release()}, Node ${process.version}`;
}

/** Tenure with its commit, and the client libraries that the benchmarks load. */
export function readVersions(): string[] {
  const clients = ["ioredis", "redis", "pg", "postgres", "better-sqlite3"].map(
    (name) => `${name}@${readVersion(`node_modules/${name}/package.json`)}`,
  );
  return [`tenure@${readVersion("package.json")}${describeCommit()}`, ...clients];
}

function readVersion(path: string): string {
  return (JSON.parse(readFileSync(new URL(path, ROOT), "utf8")) as { version: string }).version;
}

/** Empty outside a git repository. */
function describeCommit(): string {
  const git = (...args: string[]): string =>
    execFileSync("git", args, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  try {
    const isChanged = git("status", "--porcelain", "--", "src") !== "";
    return ` (${git("rev-parse", "--short", "HEAD").trim()}${isChanged ? " with changes" : ""})`;
  } catch {
    return "";
  }
}
