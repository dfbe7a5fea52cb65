// Starts the programs of examples/ as a reader would, in a temp folder, and collects their output.
// All of them are killed after the test.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect } from "vitest";

const EXAMPLES = fileURLToPath(new URL("../../../examples", import.meta.url));
/**
 * A program that does not print the expected line within this time counts as hanging. A ttl of 10 s
 * may have to expire first.
 */
const SILENCE_MAX_MS = 60_000;

export interface Example {
  readonly name: string;
  /** The lines that it has printed to stdout and stderr, without its name. */
  readonly lines: readonly string[];
  /** Waits until a line matches, and returns the match in the last such line. */
  said(pattern: RegExp): Promise<RegExpMatchArray>;
  signal(signal: NodeJS.Signals): void;
  /** The exit code, or the signal that killed it. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

export interface Stage {
  readonly folder: string;
  start(program: string, name: string, env?: NodeJS.ProcessEnv): Example;
}

/** Call once at the top of a test file. The result creates a new stage for each test. */
export function stages(): () => Stage {
  const children: ChildProcess[] = [];
  const folders: string[] = [];
  afterEach(async () => {
    for (const child of children.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const gone = new Promise((resolve) => child.once("close", resolve));
      child.kill("SIGKILL");
      await gone;
    }
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  });
  return () => {
    const folder = mkdtempSync(join(tmpdir(), "tenure-example-"));
    folders.push(folder);
    return {
      folder,
      start: (program, name, env = {}) => {
        const child = spawn(process.execPath, [join(EXAMPLES, program), name], {
          cwd: folder,
          env: { ...process.env, TENURE_STORE: "sqlite:./tenure.db", ...env },
          stdio: ["ignore", "pipe", "pipe"],
        });
        children.push(child);
        return toExample(name, child);
      },
    };
  };
}

function toExample(name: string, child: ChildProcess): Example {
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  const lines = (): string[] =>
    text
      .split("\n")
      .slice(0, -1)
      .map((line) => line.replace(`${name}: `, ""));
  const find = (pattern: RegExp): RegExpMatchArray | undefined =>
    lines()
      .map((line) => line.match(pattern))
      .findLast((match) => match !== null) ?? undefined;
  return {
    name,
    get lines() {
      return lines();
    },
    said: async (pattern) => {
      await expect
        .poll(() => find(pattern) !== undefined || text, { timeout: SILENCE_MAX_MS })
        .toBe(true);
      return find(pattern) as RegExpMatchArray;
    },
    signal: (signal) => void child.kill(signal),
    ended: new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal))),
  };
}
