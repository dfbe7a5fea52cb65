// `npm run mutants`: plants one bug at a time in a copy of src/, runs the simulator on it until a seed catches it, and
// prints a table. What no seed catches is explained in list.ts or gets a test.
//   npm run mutants -- [--seeds 1..2000] [--store memory] [NAME...]
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
  },
});
/** A bug that hangs instead of failing: no seed takes that long. */
const LIMIT_MS = 10 * 60_000;

interface Result {
  readonly mutant: Mutant;
  readonly caughtBy?: number;
  readonly how: string;
}

const wanted = MUTANTS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const results: Result[] = [];
const folder = mkdtempSync(join(tmpdir(), "tenure-mutants-"));
try {
  cpSync(join(root, "src"), join(folder, "src"), { recursive: true });
  cpSync(join(root, "package.json"), join(folder, "package.json"));
  for (const mutant of wanted) {
    const result = await tryMutant(mutant);
    results.push(result);
    const seed = result.caughtBy === undefined ? "survived" : `seed ${result.caughtBy}`;
    console.log(`${mutant.name.padEnd(44)} ${seed.padEnd(10)} ${result.how}`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const caught = results.filter(({ caughtBy }) => caughtBy !== undefined).length;
const survivors = results.filter(({ caughtBy }) => caughtBy === undefined);
console.log(
  `\n${caught} of ${results.length} caught (seeds ${values.seeds}, store ${values.store}).`,
);
for (const { mutant } of survivors)
  console.log(`  survived: ${mutant.name}${mutant.equivalent ? ` (${mutant.equivalent})` : ""}`);
process.exitCode = survivors.some(({ mutant }) => mutant.equivalent === undefined) ? 1 : 0;

async function tryMutant(mutant: Mutant): Promise<Result> {
  const path = join(folder, "src", mutant.file);
  const original = readFileSync(path, "utf8");
  if (original.split(mutant.find).length !== 2)
    throw new Error(`"${mutant.name}": its text must be in ${mutant.file} exactly once.`);
  writeFileSync(
    path,
    original.replace(mutant.find, () => mutant.replace),
  );
  try {
    return { mutant, ...(await simulate(mutant.store ?? values.store, values.seeds)) };
  } finally {
    writeFileSync(path, original);
  }
}

async function simulate(
  store: string,
  seeds: string,
): Promise<{ readonly caughtBy?: number; readonly how: string }> {
  const main = join(folder, "src", "cli", "main.ts");
  const words = ["sim", "--seeds", seeds, "--store", store];
  const flags = ["--fail-fast", "--no-shrink", "--json"];
  const args = ["--import", "tsx", main, ...words, ...flags];
  try {
    await promisify(execFile)(process.execPath, args, { cwd: root, timeout: LIMIT_MS });
    return { how: "" };
  } catch (error) {
    const { code, stdout = "" } = error as { code?: number; stdout?: string };
    if (code !== 1) throw error;
    const { findings } = JSON.parse(stdout) as {
      findings: { seed: number; violations: { invariant: string; message: string }[] }[];
    };
    const [first] = findings;
    const [violation] = first?.violations ?? [];
    if (first === undefined) throw new Error(`No finding: ${stdout}`);
    // A bug that only makes a day prove nothing has been noticed by nobody: on with the next day.
    if (violation === undefined) {
      const last = Number(seeds.split("..")[1]);
      return first.seed < last ? simulate(store, `${first.seed + 1}..${last}`) : { how: "" };
    }
    return { caughtBy: first.seed, how: `${violation.invariant}: ${violation.message}` };
  }
}
