// The test job. It runs the static checks and unit tests in parallel with the tests that mostly
// wait, then the tests that measure time. It ends with the slowest files, the counts per engine and
// one closing line. With arguments it runs only the selected tests, without static checks and
// coverage.
import { runChecks } from "./checks.mjs";
import { seconds } from "./run.mjs";
import { runVitest } from "./vitest-run.mjs";

const projects = ["unit", "sim", "stores", "process", "timed"];
const SLOWEST = 12;

const startedAt = performance.now();
const args = process.argv.slice(2);
const summaries = args.length > 0 ? await runFocused(args) : await runAll();
printSummary(summaries);

async function runFocused(words) {
  // The bare name of a project selects it: `npm test -- unit token.test.ts`.
  const chosen = words.flatMap((word) => (projects.includes(word) ? ["--project", word] : [word]));
  const summary = await runVitest(chosen);
  console.log("\nfocused run: static checks and coverage were left out");
  return [summary];
}

async function runAll() {
  const computing = async () => {
    const failed = (await runChecks()).length;
    // One worker, to leave a core for the waiting tests. Coverage makes the simulator slower, so
    // only the tests in src/ are measured.
    const alone = ["--maxWorkers", "1"];
    const measured = await runVitest(["--project", "unit", ...alone, "--coverage", "src/"]);
    const others = await runVitest(["--project", "unit", ...alone, "--exclude", "src/**"]);
    const simulated = await runVitest(["--project", "sim", ...alone]);
    return [{ ...measured, failed: measured.failed + failed }, others, simulated];
  };
  const waiting = () => runVitest(["--project", "stores", "--project", "process"]);
  const found = (await Promise.all([computing(), waiting()])).flat();
  // Run alone, because other tests would disturb the measurements.
  found.push(await runVitest(["--project", "timed"]));
  for (const project of projects) {
    if (found.some((summary) => (summary.projects[project] ?? 0) > 0)) continue;
    console.log(`FAIL  no test ran in project ${project}`);
    found[0].failed += 1;
  }
  return found;
}

function printSummary(all) {
  const sum = (pick) => all.reduce((total, summary) => total + pick(summary), 0);
  const passed = sum((summary) => summary.passed);
  const failed = sum((summary) => summary.failed);
  const skipped = all.flatMap((summary) => summary.skipped);
  const files = all.flatMap((summary) => summary.files);
  const perEngine = new Map();
  for (const [engine, count] of all.flatMap((summary) => Object.entries(summary.perEngine)))
    perEngine.set(engine, (perEngine.get(engine) ?? 0) + count);

  console.log(`\nslowest of ${files.length} files:`);
  files.sort((a, b) => b.durationMs - a.durationMs);
  for (const { name, durationMs } of files.slice(0, SLOWEST))
    console.log(`${(durationMs / 1000).toFixed(1).padStart(8)} s  ${name}`);
  const counts = [...perEngine].map(([engine, count]) => `${engine} ${count}`);
  console.log(`passed per engine: ${counts.join(", ")}`);
  for (const { name, reason } of skipped) console.log(`skipped: ${name}: ${reason}`);
  if (passed + failed === 0) console.log("FAIL  no test ran");
  console.log(`finished in ${seconds(startedAt)}`);
  console.log(`${passed} passed, ${failed} failed, ${skipped.length} skipped`);
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
}
