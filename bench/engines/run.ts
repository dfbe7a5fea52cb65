// The benchmarks of one engine in turn, each a section of the results.

import type { Section } from "../support.ts";
import type { BenchServer, EngineBench } from "./engine.ts";
import { etcdBench } from "./etcd.ts";
import { pairRows } from "./pairs.ts";
import { pgBench, postgresJsBench } from "./postgres.ts";
import { failoverRows, handoverRows, manyRows } from "./processes.ts";
import { ioredisBench, nodeRedisBench } from "./redis.ts";
import { zookeeperBench } from "./zookeeper.ts";

/** `--quick`: enough to see that it works, and the order of magnitude. */
interface Effort {
  readonly quick: boolean;
}

type Run = (effort: Effort) => Promise<Section[]>;

/** By the name that is asked for. Another engine is one more entry. */
export const engineBenchmarks: Readonly<Record<string, Run>> = {
  redis: async (effort) => [
    ...(await run(ioredisBench, effort)),
    ...(await run(nodeRedisBench, effort)),
  ],
  postgres: async (effort) => [
    ...(await run(pgBench, effort)),
    ...(await run(postgresJsBench, effort)),
  ],
  etcd: (effort) => run(etcdBench, effort),
  zookeeper: (effort) => run(zookeeperBench, effort),
};

async function run<S extends BenchServer>(
  engine: EngineBench<S>,
  { quick }: Effort,
): Promise<Section[]> {
  await using server = await engine.start();
  const pairs = quick ? { rounds: 5, sliceMs: 150 } : { rounds: 21, sliceMs: 250 };
  const sections: Section[] = [];
  const measure = async (
    title: string,
    method: string,
    rows: Promise<Section["rows"]>,
  ): Promise<void> => {
    console.log(`  ${engine.name}: ${title} ...`);
    sections.push({ title: `${engine.name}: ${title}`, method, rows: await rows });
  };
  await measure(
    "acquire + release",
    `${pairs.rounds} interleaved slices of ${pairs.sliceMs} ms; median, (min-max); ratios within one round.`,
    pairRows(engine, server, pairs),
  );
  if (engine.isWhole === false) return sections;
  const handovers = quick ? 60 : 300;
  await measure(
    "handover between two processes",
    "From the call of release() in one to the end of acquire() in the other, by the clock that both share.",
    handoverRows(engine, server, handovers),
  );
  await measure(
    "failover",
    "From SIGKILL of the holder to the grant of a process that was waiting.",
    failoverRows(server, quick ? 2 : 5),
  );
  await measure(
    "many leases, one session",
    "ttl 10 s, renewed every third of it; requests are counted at the server; CPU of a process that does nothing else.",
    manyRows(engine, server, quick ? 8_000 : 30_000),
  );
  return sections;
}
