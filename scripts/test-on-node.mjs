// Runs the unit and stores projects on other Node versions: `node scripts/test-on-node.mjs 22 24`.
// The binaries come from npm. The package `node` only installs the package of the platform, so this
// script installs that one directly. better-sqlite3 was compiled for the current Node and does not
// load on the others. The stores then use node:sqlite, which is what this run tests.
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { npm, root, run } from "./run.mjs";
import { runVitest } from "./vitest-run.mjs";

/** Returns one summary per version, in order. */
async function testOnNode(majors) {
  const summaries = [];
  for (const major of majors) {
    const node = await installNode(major);
    const version = (await run(node, ["--version"], { capture: true })).output.trim();
    console.log(`\nNode ${version}: projects unit, sim and stores`);
    const projects = ["unit", "sim", "stores"].flatMap((name) => ["--project", name]);
    const summary = await runVitest(projects, { node });
    const { passed, failed, skipped } = summary;
    console.log(`Node ${version}: ${passed} passed, ${failed} failed, ${skipped.length} skipped`);
    if (passed === 0) summary.failed = Math.max(1, failed);
    for (const skip of skipped) skip.name = `Node ${version}: ${skip.name}`;
    summaries.push(summary);
  }
  return summaries;
}

/** Installs a binary of this major version into a cache on first use, and returns its path. */
async function installNode(major) {
  const platform = process.platform === "win32" ? "win" : process.platform;
  const prefix = platform === "darwin" && process.arch === "arm64" ? "node-bin" : "node";
  const name = `${prefix}-${platform}-${process.arch}`;
  const folder = join(root, "node_modules", ".cache", `node-${major}`);
  const binary = join(
    folder,
    "node_modules",
    name,
    "bin",
    platform === "win" ? "node.exe" : "node",
  );
  if (existsSync(binary)) return binary;
  console.log(`\ninstalling ${name}@${major}`);
  mkdirSync(folder, { recursive: true });
  const result = await npm(
    [
      "install",
      "--no-save",
      "--no-package-lock",
      "--ignore-scripts",
      "--prefix",
      folder,
      `${name}@${major}`,
    ],
    { capture: true },
  );
  if (result.code === 0 && existsSync(binary)) return binary;
  console.error(result.error?.message ?? result.output);
  throw new Error(`${name}@${major} could not be installed; the output of npm is above.`);
}

const majors = process.argv.slice(2);
if (majors.length === 0) throw new Error("Expected Node major versions, for example: 22 24");
const summaries = await testOnNode(majors);
process.exitCode = summaries.every((summary) => summary.failed === 0) ? 0 : 1;
