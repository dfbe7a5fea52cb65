// Three test projects: unit (no server, no waiting), stores (the conformance suite on each store) and
// process (real processes, real time). process runs last and one file at a time, because it measures time. The
// global set-up of the latter two installs the engines that their files ask for.
// Coverage is asked of src/core only: it is pure, so an unreached branch there is a missing test.
import { defineConfig, type ViteUserConfig } from "vitest/config";
import { ClosingLine } from "./scripts/closing-line.ts";

const config: ViteUserConfig = defineConfig({
  test: {
    reporters: [new ClosingLine()],
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "test/*.test.ts"],
          testTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: {
          name: "stores",
          include: ["test/stores/**/*.test.ts"],
          globalSetup: ["test/servers/global-setup.ts"],
          testTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: {
          name: "process",
          include: ["test/{process,faults,servers}/**/*.test.ts"],
          globalSetup: ["test/servers/global-setup.ts"],
          testTimeout: 120_000,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
    coverage: {
      provider: "v8",
      include: ["src/core/**/*.ts"],
      exclude: ["**/*.test.ts"],
      reporter: ["text"],
      thresholds: { branches: 95 },
    },
  },
});

export default config;
