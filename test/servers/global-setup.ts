// Before the first test: installs the engines that the files about to run ask for, so that no test waits for
// apt-get, and tells the files which engines there are not, so that none of them tries again.
import { readFileSync } from "node:fs";
import type { TestProject } from "vitest/node";
import { type EngineName, MissingEngineError } from "./engine.ts";
import { variableOf } from "./given.ts";
import { installEngine } from "./install.ts";

const engines: readonly EngineName[] = ["redis", "etcd", "postgres", "zookeeper", "pgbouncer"];

export async function setup(project: TestProject): Promise<void> {
  const files = project.vitest.state.getPaths().map((path) => readFileSync(path, "utf8"));
  // Each project has its own set-up, and one failed attempt per run is enough.
  const missing = JSON.parse(process.env.TENURE_MISSING_ENGINES ?? "{}") as Record<string, string>;
  for (const name of engines) {
    // A file that gets its server through another module is not seen here; it installs when it starts.
    const isWanted = files.some((text) => text.includes(`servers/${name}.ts"`));
    if (!isWanted || process.env[variableOf(name)] || missing[name] !== undefined) continue;
    try {
      await installEngine(name);
    } catch (error) {
      if (!(error instanceof MissingEngineError)) throw error;
      process.stdout.write(`${error.message}\n`);
      missing[name] = error.reason;
    }
  }
  process.env.TENURE_MISSING_ENGINES = JSON.stringify(missing);
  project.provide("missingEngines", missing);
}
