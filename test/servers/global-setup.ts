// Runs before the first test. It installs the engines that the selected test files need, so no test
// waits for apt-get, and reports the missing engines to the files, so none of them tries again.
// Then it offers one server per engine to all files of the run.
import { readFileSync } from "node:fs";
import type { TestProject } from "vitest/node";
import { type EngineName, MissingEngineError } from "./engine.ts";
import { startEtcd } from "./etcd.ts";
import { rememberMissing, toVariable } from "./given.ts";
import { installEngine } from "./install.ts";
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";
import { type SharedStarters, shareServers } from "./shared.ts";
import { startZooKeeper } from "./zookeeper.ts";

const engines: readonly EngineName[] = ["redis", "etcd", "postgres", "zookeeper", "pgbouncer"];

/**
 * Each server is started when the first file asks for it. The options prevent this process from
 * asking itself for a shared server.
 */
const shared: SharedStarters = {
  redis: () => startRedis({ own: true }),
  etcd: () => startEtcd({ fastElections: true }),
  postgres: () => startPostgres({ settings: { max_connections: "500" } }),
  zookeeper: () => startZooKeeper({ own: true }),
};

/** Returns the function that vitest calls after the last test. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const files = project.vitest.state.getPaths().map((path) => readFileSync(path, "utf8"));
  // Every vitest project runs this set-up, and one failed attempt per run is enough.
  const missing = JSON.parse(process.env.TENURE_MISSING_ENGINES ?? "{}") as Record<string, string>;
  for (const name of engines) {
    // A file that imports the server through another module is not found here. It installs the
    // engine when it starts.
    const isWanted = files.some((text) => text.includes(`servers/${name}.ts"`));
    if (!isWanted || process.env[toVariable(name)] || missing[name] !== undefined) continue;
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
  rememberMissing(missing);
  return shareServers(shared);
}
