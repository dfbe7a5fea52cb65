// Defines five test projects. `unit` and `sim` need no server and are CPU-bound, so they have one
// worker per core. `stores` and `process` use real servers and processes and mostly wait, so many
// of their files run at once. `timed` measures durations; its files run last, one at a time. `npm
// test` runs `unit` and `sim` in parallel with `stores` and `process`. Coverage is measured only for
// src/core and src/async, where an uncovered branch means that a test is missing.
import { availableParallelism } from "node:os";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import { LongestFirst } from "./scripts/longest-first.ts";
import { TestReporter } from "./scripts/reporter.ts";

/** The number of files that run at once. More use idle cores; too many slow down every file. */
const WAITING_FILES = 2 * availableParallelism() + 1;

/**
 * Debian's etcd and a Redis without persistence are warned about, which is right and of no use
 * here.
 */
const QUIET = ["--disable-warning=TenureWarning"];

const config: ViteUserConfig = defineConfig({
  test: {
    reporters: [new TestReporter()],
    sequence: { sequencer: LongestFirst },
    // The files of a worker share their modules: loading them anew for every file takes a third of
    // the time. A test of something that happens once per process starts a process.
    isolate: false,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: [
            "src/**/*.test.ts",
            "test/{api,repo}/**/*.test.ts",
            "test/guards/*.test.ts",
            "test/guards/{file,http,memory,proof,sqlite}/**/*.test.ts",
          ],
          testTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: {
          name: "sim",
          include: ["sim/test/*.test.ts"],
          // The simulator rejects real time, which a timer of an earlier file could use.
          isolate: true,
          testTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: {
          name: "stores",
          execArgv: QUIET,
          include: [
            "test/stores/**/*.test.ts",
            "test/guards/{all,etcd,postgres,redis,zookeeper}/**/*.test.ts",
          ],
          globalSetup: ["test/servers/global-setup.ts"],
          testTimeout: 30_000,
          maxWorkers: WAITING_FILES,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "process",
          execArgv: QUIET,
          include: ["test/{process,faults,servers}/**/*.test.ts"],
          globalSetup: ["test/servers/global-setup.ts"],
          testTimeout: 120_000,
          maxWorkers: WAITING_FILES,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "timed",
          execArgv: QUIET,
          include: ["test/timed/**/*.test.ts"],
          testTimeout: 120_000,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
    coverage: {
      provider: "v8",
      include: ["src/{core,async}/**/*.ts"],
      exclude: ["**/*.test.ts"],
      reporter: ["text"],
      thresholds: { branches: 95 },
    },
  },
});

export default config;
