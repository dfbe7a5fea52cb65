// The test job: static checks, then the three test projects, then one closing line that sums up all of it.
// With arguments it becomes a focused run: only vitest, no static checks and no coverage.
// --long adds the newer Node versions, and TENURE_LONG=1 tells tests that they may take their time.
import { runChecks } from "./checks.mjs";
import { testOnNode } from "./test-on-node.mjs";
import { runVitest } from "./vitest-run.mjs";

const projects = ["unit", "stores", "process"];
const long = process.argv.includes("--long");
const args = process.argv.slice(2).filter((arg) => arg !== "--long");
const env = long ? { TENURE_LONG: "1" } : {};

const summaries = [];
let failedElsewhere = 0;

if (args.length > 0) {
  // A project's bare name selects it: `npm test -- unit token.test.ts`.
  const chosen = args.flatMap((arg) => (projects.includes(arg) ? ["--project", arg] : [arg]));
  summaries.push(await runVitest(chosen, { env }));
  console.log("\nfocused run: static checks and coverage were left out");
} else {
  failedElsewhere += (await runChecks()).length;
  // unit apart, because only it is measured for coverage: that would slow down what measures time.
  summaries.push(await runVitest(["--project", "unit", "--coverage"], { env }));
  summaries.push(await runVitest(["--project", "stores", "--project", "process"], { env }));
  for (const project of projects) {
    if (summaries.some((summary) => (summary.projects[project] ?? 0) > 0)) continue;
    console.log(`FAIL  no test ran in project ${project}`);
    failedElsewhere += 1;
  }
  if (long) summaries.push(...(await testOnNode([22, 24], env)));
}

const sum = (pick) => summaries.reduce((total, summary) => total + pick(summary), 0);
const passed = sum((summary) => summary.passed);
const failed = sum((summary) => summary.failed) + failedElsewhere;
const skipped = summaries.flatMap((summary) => summary.skipped);
if (passed + failed === 0) console.log("FAIL  no test ran");
console.log();
for (const { name, reason } of skipped) console.log(`skipped: ${name}: ${reason}`);
console.log(`${passed} passed, ${failed} failed, ${skipped.length} skipped`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
