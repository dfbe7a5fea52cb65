// Runs vitest once and reads back what it counted. The counts travel in a file written by the reporter
// (reporter.ts), since vitest prints more (coverage) after the reporter has spoken.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, tool } from "./run.mjs";

/** @typedef {{ passed: number, failed: number, skipped: { name: string, reason: string }[], projects: Record<string, number>, perEngine: Record<string, number>, files: { name: string, durationMs: number }[] }} Summary */

/**
 * @param {string[]} args for `vitest run`
 * @param {{ node?: string, env?: Record<string, string> }} [options] node: the binary to run it with
 * @returns {Promise<Summary>}
 */
export async function runVitest(args, options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "tenure-test-"));
  const file = join(folder, "summary.json");
  try {
    const { code, signal } = await run(
      options.node ?? process.execPath,
      [tool("vitest"), "run", "--passWithNoTests", ...args],
      { env: { ...options.env, TENURE_SUMMARY_FILE: file } },
    );
    const summary = readSummary(file);
    // A bad end that no test accounts for: coverage below its threshold, a crash, a signal.
    if (code !== 0 && summary.failed === 0) {
      console.log(`vitest ended with ${signal ?? `code ${code}`} though no test failed: see above`);
      summary.failed = 1;
    }
    return summary;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readSummary(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    return { passed: 0, failed: 0, skipped: [], projects: {}, perEngine: {}, files: [] };
  }
}
