// Orders the test files, the longest first, because a long file that starts last prolongs the whole
// run. Vitest's own order needs the durations of an earlier run, which a fresh clone does not have.
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The slowest files, in order. `npm test` prints them at its end; update this list accordingly. */
const LONGEST: readonly string[] = [
  "sim/test/smoke-models.test.ts",
  "sim/test/smoke-memory.test.ts",
  "test/process/docs.test.ts",
  "test/process/proof.test.ts",
  "test/process/cli-commands.test.ts",
  "test/stores/postgres/eras.test.ts",
  "test/stores/postgres/hosts.test.ts",
  "test/faults/postgres.test.ts",
  "test/stores/etcd/cluster.test.ts",
  "test/stores/etcd/suite.test.ts",
  "test/faults/zookeeper.test.ts",
  "test/stores/postgres/suite.test.ts",
  "test/process/adapters.test.ts",
  "test/faults/redis.test.ts",
  "test/stores/redis/suite.test.ts",
  "test/process/cli-loss.test.ts",
  "test/stores/zookeeper/suite.test.ts",
  "test/process/cli-guard.test.ts",
  "test/stores/postgres/pooler.test.ts",
  "test/faults/etcd.test.ts",
  "test/process/cli-run.test.ts",
  "test/process/mutual-exclusion.test.ts",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const others = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification): number => {
      const index = LONGEST.indexOf(relative(this.ctx.config.root, moduleId));
      return index < 0 ? LONGEST.length : index;
    };
    const group = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;
    return others.sort((a, b) => group(a) - group(b) || rank(a) - rank(b));
  }
}
