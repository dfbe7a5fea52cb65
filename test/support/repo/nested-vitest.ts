// Runs vitest on a file made by a test, with the reporter of this repository, and returns what the
// reporter counted and printed.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll } from "vitest";

const root = fileURLToPath(new URL("../../..", import.meta.url));

const CONFIG = `
import { TestReporter } from "../scripts/reporter.ts";
export default { test: { reporters: [new TestReporter()] } };
`;

interface NestedRun {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: readonly { name: string; reason: string }[];
  readonly files: readonly { name: string; durationMs: number }[];
  readonly output: string;
}

type RunNested = (args?: readonly string[], env?: Record<string, string>) => Promise<NestedRun>;

/** Call at the top of a test file. The source is that of one test file, made.test.ts. */
export function nestedVitest(source: string): RunNested {
  // Inside the project, because vitest is found only there.
  const folder = mkdtempSync(join(root, ".servers-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "made.test.ts"), source);
  writeFileSync(join(folder, "vitest.config.ts"), CONFIG);
  const summaryFile = join(folder, "summary.json");
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  return async (args = [], env = {}) => {
    const command = [vitest, "run", "--root", folder, ...args];
    const own = { TENURE_REQUIRE_ENGINES: "", TENURE_SUMMARY_FILE: summaryFile, ...env };
    const { stdout } = await promisify(execFile)(process.execPath, command, {
      cwd: folder,
      env: { ...process.env, ...own },
    }).catch((error: { stdout: string }) => error);
    return { ...JSON.parse(readFileSync(summaryFile, "utf8")), output: stdout };
  };
}
