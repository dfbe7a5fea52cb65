// Starting up: the time from the start of a process to its first lock, and the time of an import.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Contestant, compare, milliseconds } from "./comparison.ts";
import { peerPackages } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import { labels } from "./servers.ts";
import { median } from "./statistics.ts";
import { type Context, toContestants } from "./topic.ts";
import { newResource, type Target, withLockers } from "./workers.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const PEERS = fileURLToPath(new URL("./peers/", import.meta.url));
const IMPORT_MAX_MS = 30;
const run = promisify(execFile);

export async function* start(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, engines, servers } = context;
  const rounds = quick ? 1 : 3;
  for (const engine of engines) {
    const target = { engine, url: await servers.url(engine), topic: "start" } as const;
    yield await compare({
      title: `${labels[engine]}: start of a process to its first lock`,
      method: "Starting Node, importing, connecting, the first acquire.",
      rounds,
      figures: { "first lock": milliseconds },
      contestants: toContestants(context, target, (contender) => ({
        measure: async () => ({ "first lock": await measureFirstLock(contender) }),
      })),
    });
  }
  const imports = quick ? 2 : 5;
  const measure = (name: string, cwd: string) => async () => ({
    import: await measureImport(name, cwd, imports),
  });
  yield await compare({
    title: "Import",
    method: `The first import in a new process, median of ${imports} a round; peers without their client library.`,
    rounds,
    figures: { import: { ...milliseconds, atMost: IMPORT_MAX_MS } },
    contestants: [
      { name: "tenure", kind: "tenure", measure: measure("tenure", ROOT) },
      ...(withPeers ? peerPackages() : []).map(
        (name): Contestant => ({ name, kind: "peer", measure: measure(name, PEERS) }),
      ),
    ],
  });
}

async function measureFirstLock(target: Target): Promise<number> {
  const startedAt = performance.now();
  return withLockers(target, { count: 1 }, async ([worker]) => {
    await worker.ask({ lock: newResource() });
    return performance.now() - startedAt;
  });
}

async function measureImport(name: string, cwd: string, imports: number): Promise<number> {
  const program = `const t = performance.now(); await import(${JSON.stringify(name)}); console.log(performance.now() - t);`;
  const times: number[] = [];
  while (times.length < imports) {
    const args = ["--input-type=module", "-e", program];
    times.push(Number((await run(process.execPath, args, { cwd })).stdout));
  }
  return median(times);
}
