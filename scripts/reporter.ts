// The vitest reporter. It prints one line per finished file with the progress of the run, and at
// the end all failures with the commands that reproduce them. A skipped test must give a reason,
// with ctx.skip(note) or with "[reason: ...]" in its title or in the title of its suite. A skip
// without a reason counts as a failure, so that no test is skipped unnoticed.
import { writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { relative } from "node:path";
import type {
  Reporter,
  SerializedError,
  TestCase,
  TestModule,
  TestSpecification,
  Vitest,
} from "vitest/node";

interface Counts {
  passed: number;
  failed: number;
  readonly skipped: { name: string; reason: string }[];
}

const slowTestMs = 5_000;

const engines = ["postgres", "redis", "etcd", "zookeeper", "sqlite", "memory"];

/** Writes the counts to TENURE_SUMMARY_FILE if it is set, and otherwise prints the closing line. */
export class TestReporter implements Reporter {
  #vitest: Vitest | undefined;
  #startedAt = performance.now();
  #files = 0;
  #finished = 0;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunStart(specifications: readonly TestSpecification[]): void {
    this.#startedAt = performance.now();
    this.#files = specifications.length;
    this.#finished = 0;
  }

  onTestCaseResult(testCase: TestCase): void {
    const durationMs = testCase.diagnostic()?.duration ?? 0;
    if (durationMs < slowTestMs) return;
    say(`      ${testCase.result().state} in ${formatSeconds(durationMs)}: ${testCase.fullName}`);
  }

  onTestModuleEnd(testModule: TestModule): void {
    const counts = this.#count([testModule]);
    const word = counts.failed > 0 ? "FAIL" : "ok  ";
    const numbers = `${counts.passed} passed`
      .concat(counts.failed > 0 ? `, ${counts.failed} failed` : "")
      .concat(counts.skipped.length > 0 ? `, ${counts.skipped.length} skipped` : "");
    const duration = formatSeconds(testModule.diagnostic().duration);
    this.#finished += 1;
    const elapsed = `${((performance.now() - this.#startedAt) / 1000).toFixed(0)} s`;
    const done = `${this.#finished}/${this.#files}`;
    const name = testModule.project.name.padEnd(8);
    say(
      `${word} ${elapsed.padStart(5)} ${done.padStart(7)}  ${name} ${formatPath(testModule)}: ${numbers} (${duration})`,
    );
    for (const testCase of testModule.children.allTests("failed")) {
      const [error] = testCase.result().errors ?? [];
      say(`      failed: ${testCase.fullName}: ${error?.message.split("\n")[0]}`);
    }
  }

  onUserConsoleLog(log: { content: string; type: "stdout" | "stderr" }): void {
    process[log.type].write(log.content);
  }

  onTestRunEnd(
    testModules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: "passed" | "interrupted" | "failed",
  ): void {
    const counts = this.#count(testModules);
    for (const testModule of testModules) this.#printFailures(testModule);
    for (const error of unhandledErrors) this.#print("error outside any test", error);
    counts.failed += unhandledErrors.length;
    if (reason === "interrupted") {
      say("FAIL  the run was interrupted");
      counts.failed += 1;
    }
    // vitest itself does not count a skip without a reason as a failure.
    if (counts.failed > 0) process.exitCode = 1;
    this.#close(counts, testModules);
  }

  #close(counts: Counts, testModules: readonly TestModule[]): void {
    const file = process.env.TENURE_SUMMARY_FILE;
    if (file === undefined) {
      for (const { name, reason } of counts.skipped) say(`skipped: ${name}: ${reason}`);
      say(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped.length} skipped`);
      return;
    }
    const projects: Record<string, number> = {};
    const perEngine: Record<string, number> = {};
    for (const testModule of testModules) {
      const name = testModule.project.name;
      projects[name] = (projects[name] ?? 0) + this.#count([testModule]).passed;
      for (const testCase of testModule.children.allTests("passed")) {
        const engine = findEngine(testCase);
        perEngine[engine] = (perEngine[engine] ?? 0) + 1;
      }
    }
    const files = testModules.map((testModule) => ({
      name: formatPath(testModule),
      durationMs: testModule.diagnostic().duration,
    }));
    writeFileSync(file, JSON.stringify({ ...counts, projects, perEngine, files }));
  }

  #count(testModules: readonly TestModule[]): Counts {
    const counts: Counts = { passed: 0, failed: 0, skipped: [] };
    for (const testModule of testModules) {
      counts.failed += findErrorsOutsideTests(testModule).length;
      for (const testCase of testModule.children.allTests()) {
        if (this.#wasFilteredOut(testCase)) continue;
        const { state } = testCase.result();
        if (state === "passed") counts.passed += 1;
        else if (state === "skipped" && findSkipFault(testCase) === undefined) {
          counts.skipped.push({ name: formatName(testCase), reason: findReason(testCase) ?? "" });
        } else counts.failed += 1;
      }
    }
    return counts;
  }

  /** `-t pattern` marks all other tests as skipped. These do not count. */
  #wasFilteredOut(testCase: TestCase): boolean {
    const pattern = this.#vitest?.config.testNamePattern;
    if (pattern === undefined || testCase.result().state !== "skipped") return false;
    return !pattern.test(testCase.fullName.replaceAll(" > ", " "));
  }

  #printFailures(testModule: TestModule): void {
    for (const { name, error } of findErrorsOutsideTests(testModule))
      this.#print(name, error, testModule);
    for (const testCase of testModule.children.allTests()) {
      const result = testCase.result();
      if (result.state === "failed") {
        for (const error of result.errors) this.#print(formatName(testCase), error, testModule);
        say(formatReproduction(testCase));
      } else if (result.state !== "passed" && !this.#wasFilteredOut(testCase)) {
        const fault = result.state === "pending" ? "it never finished" : findSkipFault(testCase);
        if (fault !== undefined) say(`\nFAIL  ${formatName(testCase)}\n${fault}`);
      }
    }
  }

  #print(name: string, error: SerializedError, testModule?: TestModule): void {
    say(`\nFAIL  ${name}`);
    this.#vitest?.logger.printError(error, testModule ? { project: testModule.project } : {});
  }
}

/** Errors from loading a file and from the hooks of suites, which belong to no single test. */
function findErrorsOutsideTests(
  testModule: TestModule,
): { name: string; error: SerializedError }[] {
  const file = formatPath(testModule);
  const found = testModule.errors().map((error) => ({ name: file, error }));
  for (const suite of testModule.children.allSuites()) {
    for (const error of suite.errors()) found.push({ name: `${file} > ${suite.fullName}`, error });
  }
  return found;
}

function findReason(testCase: TestCase): string | undefined {
  const result = testCase.result();
  const note = result.state === "skipped" ? result.note?.trim() : undefined;
  return note || /\[reason:\s*([^\]]*\S)\s*\]/.exec(testCase.fullName)?.[1];
}

/** Why a skip counts as a failure. Undefined if it is acceptable. */
function findSkipFault(testCase: TestCase): string | undefined {
  const reason = findReason(testCase);
  if (reason === undefined) {
    return "It was skipped without a reason. Use ctx.skip(note), or put [reason: ...] into the title.";
  }
  if (process.env.TENURE_REQUIRE_ENGINES === "1" && reason.startsWith("missing engine")) {
    return `It was skipped (${reason}), and TENURE_REQUIRE_ENGINES=1 asks for every engine.`;
  }
  return undefined;
}

/** The backend of a test, found in its path or title. Some projects have none. */
function findEngine(testCase: TestCase): string {
  if (["unit", "sim"].includes(testCase.project.name)) return "no server";
  const places = [formatPath(testCase.module), testCase.fullName.toLowerCase()];
  for (const place of places) {
    const engine = engines.find((name) => place.includes(name));
    if (engine !== undefined) return engine;
  }
  return "several";
}

/** The command that runs this one test, and the load, which may explain a timeout. */
function formatReproduction(testCase: TestCase): string {
  const title = testCase.fullName.replaceAll(" > ", " ").replace(/[$()*+.?[\\\]^{|}]/g, ".");
  const quoted = `'${title.replaceAll("'", ".")}'`;
  const load = loadavg().map((average) => average.toFixed(1));
  return (
    `to reproduce: npm test -- ${formatPath(testCase.module)} -t ${quoted}\n` +
    `(Node ${process.versions.node}, ${availableParallelism()} cores, load ${load.join(" ")} over 1, 5 and 15 minutes)`
  );
}

function formatName(testCase: TestCase): string {
  return `${formatPath(testCase.module)} > ${testCase.fullName}`;
}

function formatPath(testModule: TestModule): string {
  return relative(process.cwd(), testModule.moduleId);
}

function formatSeconds(durationMs: number): string {
  return `${(durationMs / 1000).toFixed(1)} s`;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
