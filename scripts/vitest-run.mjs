// Runs vitest once and returns its counts. The reporter (reporter.ts) writes them to a file,
// because vitest still prints the coverage after the reporter has finished.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, tool } from "./run.mjs";

/**
 * @typedef {object} Summary
 * @property {number} passed
 * @property {number} failed
 * @property {{ name: string, reason: string }[]} skipped
 * @property {Record<string, number>} projects tests passed per project
 * @property {Record<string, number>} perEngine tests passed per engine
 * @property {{ name: string, durationMs: number }[]} files
 */

/**
 * @param {string[]} args for `vitest run`
 * @param {{ node?: string, env?: Record<string, string> }} [options] node: the binary to use
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
    // A failure that belongs to no test: coverage below its threshold, a crash, or a signal.
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
