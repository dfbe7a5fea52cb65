// The entry point of every npm script: checks the version of Node, installs and builds what is
// needed, then runs the job. It uses only Node's built-ins, because a fresh clone has nothing else.
import { readFileSync } from "node:fs";

const [job = "", ...args] = process.argv.slice(2);

const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const [major, minor] = manifest.engines.node.match(/\d+/g).map(Number);
const [ownMajor, ownMinor] = process.versions.node.split(".").map(Number);
if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  console.error(
    `Tenure needs Node.js ${major}.${minor} or newer; this is ${process.versions.node}. Install a newer one from https://nodejs.org and run the same command again.`,
  );
  process.exit(1);
}

// Loaded only now, because an older Node may not be able to parse these files.
const { endLike, run, tool } = await import("./run.mjs");
const { setUp, SetupError } = await import("./setup.mjs");

/**
 * Every job: whether it needs a build, which packages if not all, and its arguments for node,
 * computed after the set-up.
 */
const jobs = {
  start: {
    build: "no",
    packages: ["esbuild", "better-sqlite3"],
    command: () => ["examples/demo/start.mjs"],
  },
  test: { build: "if-needed", command: () => ["scripts/test.mjs"] },
  "test:long": { build: "if-needed", command: () => ["scripts/test-long.mjs"] },
  "test:installs": {
    build: "if-needed",
    command: () => ["--import", "tsx", "scripts/installs/main.ts"],
  },
  check: { build: "if-needed", command: () => ["scripts/checks.mjs"] },
  api: { build: "if-needed", command: () => ["scripts/api.mjs"] },
  bench: { build: "if-needed", command: () => ["--expose-gc", "--import", "tsx", "bench/main.ts"] },
  "bench:peers": {
    build: "if-needed",
    command: () => ["--expose-gc", "--import", "tsx", "bench/main.ts", "--peers"],
  },
  overlap: { build: "if-needed", command: () => ["--import", "tsx", "bench/overlap/main.ts"] },
  proof: { build: "no", command: () => ["--import", "tsx", "bench/proof/main.ts"] },
  sim: { build: "no", command: () => ["--import", "tsx", "sim/cli/main.ts"] },
  mutants: { build: "no", command: () => ["--import", "tsx", "sim/mutants/main.ts"] },
  build: { build: "always" },
  coverage: {
    build: "if-needed",
    command: () => [tool("vitest"), "run", "--project", "unit", "--coverage"],
  },
  format: { build: "no", command: () => ["--import", "tsx", "scripts/format.ts"] },
  // npm calls these before and after `npm pack` and `npm publish`.
  prepack: { build: "if-needed", command: () => ["scripts/readme-links.mjs", "absolute"] },
  postpack: { build: "no", command: () => ["scripts/readme-links.mjs", "relative"] },
};

if (!Object.hasOwn(jobs, job)) {
  console.error(`Expected one of ${Object.keys(jobs).join(", ")}, got "${job}".`);
  process.exit(1);
}

try {
  await setUp(jobs[job]);
} catch (error) {
  console.error(error instanceof SetupError ? error.message : error);
  // The test job always ends with this line, even if it could not start.
  if (job.startsWith("test")) console.log("0 passed, 1 failed, 0 skipped");
  process.exit(1);
}
if (jobs[job].command) {
  const nodeArgs = [...jobs[job].command(), ...args];
  endLike(await run(process.execPath, nodeArgs, { outliveSignals: true }));
}
