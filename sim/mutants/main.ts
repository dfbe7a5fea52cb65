// `npm run mutants`: plants one bug at a time in a copy of the code and prints a table of what
// detects it. If the bug names a test, that test is run first. Otherwise, or if the test passes,
// the simulator runs until a seed detects the bug. Two bugs are tried at a time, one per core.
//   npm run mutants -- [--seeds 1..2000] [--store memory] [--at-once 2] [NAME...]
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { MUTANTS, type Mutant } from "./list.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: "string", default: "1..2000" },
    store: { type: "string", default: "memory" },
    "at-once": { type: "string", default: "2" },
  },
});
/** Limit for a bug that makes the code hang. No seed takes this long. */
const LIMIT_MS = 10 * 60_000;
/** What a test needs in addition to node_modules. */
const COPIED = [
  "src",
  "sim",
  "test",
  "package.json",
  "tsconfig.json",
  "vitest.config.ts",
  "scripts",
];

interface Result {
  readonly mutant: Mutant;
  readonly caughtBy?: "seed" | "test";
  /** The seed, or empty. */
  readonly where: string;
  readonly how: string;
}

const unknown = positionals.filter((name) => !MUTANTS.some((mutant) => mutant.name === name));
if (unknown.length > 0)
  throw new Error(
    `There is no planted bug called ${unknown.join(", ")}. The names are in sim/mutants.`,
  );
const wanted = MUTANTS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const waiting = [...wanted];
const results: Result[] = [];
await Promise.all(Array.from({ length: Number(values["at-once"]) }, plantInCopy));

const caughtBy = (judge: Result["caughtBy"]): Result[] =>
  results.filter((result) => result.caughtBy === judge);
const survivors = caughtBy(undefined);
console.log(
  `\n${caughtBy("seed").length + caughtBy("test").length} of ${results.length} caught: ${caughtBy("seed").length} by a seed ` +
    `(${values.seeds}), ${caughtBy("test").length} by a test.`,
);
for (const { mutant } of survivors)
  console.log(`  survived: ${mutant.name}${mutant.equivalent ? ` (${mutant.equivalent})` : ""}`);
process.exitCode = survivors.some(({ mutant }) => mutant.equivalent === undefined) ? 1 : 0;

/** Tries one bug after another in its own copy, until none is left. */
async function plantInCopy(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tenure-mutants-"));
  try {
    for (const name of COPIED) cpSync(join(root, name), join(folder, name), { recursive: true });
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const result = await tryMutant(folder, mutant);
      results.push(result);
      const where = result.caughtBy === undefined ? "survived" : result.where;
      console.log(`${mutant.name.padEnd(80)} ${where.padEnd(10)} ${result.how}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function tryMutant(folder: string, mutant: Mutant): Promise<Result> {
  const path = join(folder, mutant.file);
  const original = readFileSync(path, "utf8");
  if (original.split(mutant.find).length !== 2)
    throw new Error(
      `"${mutant.name}": its text must occur in ${mutant.file} exactly once. Update the quoted text.`,
    );
  writeFileSync(
    path,
    original.replace(mutant.find, () => mutant.replace),
  );
  try {
    // A test takes seconds, and seeds that find nothing take a minute, so the test goes first.
    const { test } = mutant;
    if (test !== undefined && (await failsTest(folder, test)))
      return { mutant, caughtBy: "test", where: "by test", how: test };
    const seen = await simulate(folder, mutant.store ?? values.store, values.seeds);
    // A hang does not count as detected: no invariant was reported as broken.
    if (seen === "hangs")
      return { mutant, where: "", how: `did not finish within ${LIMIT_MS / 1_000} s` };
    if (seen !== undefined) return { mutant, caughtBy: "seed", ...seen };
    return { mutant, where: "", how: "" };
  } finally {
    writeFileSync(path, original);
  }
}

interface ChildError {
  readonly code?: number;
  readonly killed?: boolean;
  readonly stdout?: string;
}

async function simulate(
  folder: string,
  store: string,
  seeds: string,
): Promise<{ readonly where: string; readonly how: string } | "hangs" | undefined> {
  const main = join(folder, "sim", "cli", "main.ts");
  const words = ["--seeds", seeds, "--store", store];
  // One job, because each bug has one core.
  const flags = ["--jobs", "1", "--fail-fast", "--no-shrink", "--json"];
  const args = ["--import", "tsx", main, ...words, ...flags];
  try {
    await promisify(execFile)(process.execPath, args, { cwd: root, timeout: LIMIT_MS });
    return undefined;
  } catch (error) {
    const { code, killed, stdout = "" } = error as ChildError;
    if (killed === true) return "hangs";
    if (code !== 1) throw error;
    const { findings } = JSON.parse(stdout) as {
      findings: { seed: number; violations: { invariant: string; message: string }[] }[];
    };
    const [first] = findings;
    const [violation] = first?.violations ?? [];
    if (first === undefined) throw new Error(`No finding: ${stdout}`);
    // A run that proved nothing has not detected the bug. Continue with the next seed.
    if (violation === undefined) {
      const last = Number(seeds.split("..")[1]);
      return first.seed < last ? simulate(folder, store, `${first.seed + 1}..${last}`) : undefined;
    }
    return { where: `seed ${first.seed}`, how: `${violation.invariant}: ${violation.message}` };
  }
}

async function failsTest(folder: string, test: string): Promise<boolean> {
  const vitest = join("node_modules", "vitest", "vitest.mjs");
  const needsServer = /^test\/(stores|guards\/(etcd|postgres|redis|zookeeper))\//.test(test);
  const projects = needsServer ? ["stores"] : ["unit", "sim"];
  const args = [vitest, "run", ...projects.flatMap((name) => ["--project", name]), test];
  try {
    await promisify(execFile)(process.execPath, args, { cwd: folder, timeout: LIMIT_MS });
    return false;
  } catch (error) {
    const { stdout = "" } = error as ChildError;
    // Only a failed test counts. A test that could not run proves nothing.
    if (/[1-9]\d* failed/.test(stdout)) return true;
    throw error;
  }
}
