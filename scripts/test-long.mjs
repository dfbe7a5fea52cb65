// The long test job: tests that take hours and need not run every day. Each part can be selected by
// name: `npm run test:long -- seeds engines`. TENURE_LONG=1 makes the suite use its full numbers of
// trials.
import { run, seconds } from "./run.mjs";

const models = ["memory", "sqlite", "postgres", "redis", "etcd", "zookeeper"];
const releases = [
  "bullseye:etcd",
  "trixie:etcd",
  "bullseye:redis",
  "trixie:redis",
  "trixie:valkey",
  "bullseye:postgres",
  "trixie:postgres",
  "trixie:zookeeper",
];

/** The parts by name: arguments for node, run one after the other. */
const parts = {
  suite: [["scripts/test.mjs"]],
  node: [["scripts/test-on-node.mjs", "22", "24"]],
  engines: releases.map((release) => ["scripts/test-on-engines.mjs", release]),
  seeds: models.map((model) => [
    "--import",
    "tsx",
    "sim/cli/main.ts",
    "--store",
    model,
    "--seeds",
    "1..100000",
  ]),
  mutants: [["--import", "tsx", "sim/mutants/main.ts"]],
  installs: [["--import", "tsx", "scripts/installs/main.ts"]],
  peers: [["--expose-gc", "--import", "tsx", "bench/main.ts", "--peers"]],
};

const names = Object.keys(parts);
const unknown = process.argv.slice(2).filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`Expected some of ${names.join(", ")}, got "${unknown.join(" ")}".`);
  process.exit(2);
}
const wanted = process.argv.length > 2 ? process.argv.slice(2) : names;

const results = [];
for (const command of wanted.flatMap((name) => parts[name])) {
  const shown = command.filter((word) => !word.startsWith("--import") && word !== "tsx").join(" ");
  console.log(`\n== ${shown}`);
  const startedAt = performance.now();
  const { code } = await run(process.execPath, command, { env: { TENURE_LONG: "1" } });
  results.push({ shown, ok: code === 0, took: seconds(startedAt) });
}

console.log();
for (const { shown, ok, took } of results)
  console.log(`${ok ? "ok  " : "FAIL"} ${took.padStart(9)}  ${shown}`);
const failed = results.filter(({ ok }) => !ok).length;
console.log(`${results.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
