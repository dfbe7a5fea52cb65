// Goal: the models of the stores are believable: what the real server passes, its model passes too. Method: the conformance
// suite on each, with the store's real code in front and virtual time behind.
import { etcdEngine } from "../src/sim/stores/etcd.ts";
import { memoryEngine } from "../src/sim/stores/memory.ts";
import { postgresEngine } from "../src/sim/stores/postgres.ts";
import { redisEngine } from "../src/sim/stores/redis.ts";
import { sqliteEngine } from "../src/sim/stores/sqlite.ts";
import { zookeeperShaped } from "../src/sim/stores/zookeeper.ts";
import { storeSuite } from "../src/testing/index.ts";
import { modelHarness } from "./support/model-bench.ts";
import { sideBySide } from "./support/store-runner.ts";

storeSuite(sideBySide, {
  name: "the memory store behind a network",
  ttlMs: 10_000,
  guarantees: { fifo: true, durable: true },
  create: async () => modelHarness(memoryEngine),
});

storeSuite(sideBySide, {
  name: "the model of etcd",
  ttlMs: 4_000,
  guarantees: { fifo: true, durable: true },
  create: async () => modelHarness(etcdEngine),
});

storeSuite(sideBySide, {
  name: "SQLite on one simulated machine",
  ttlMs: 10_000,
  guarantees: { fifo: true, durable: true },
  create: async () => {
    await sqliteEngine.ready?.();
    return modelHarness(sqliteEngine);
  },
});

storeSuite(sideBySide, {
  name: "the model of PostgreSQL",
  ttlMs: 10_000,
  guarantees: { fifo: true, durable: true },
  create: async () => modelHarness(postgresEngine),
});

storeSuite(sideBySide, {
  name: "the model of Redis",
  ttlMs: 4_000,
  guarantees: { fifo: true, durable: true },
  create: async () => modelHarness(redisEngine),
});
});

storeSuite(sideBySide, {
for (const shape of ["alone", "listed", "balanced"] as const)
  storeSuite(sideBySide, {
    name: `the model of ZooKeeper, ${shape}`,
    ttlMs: 4_000,
    guarantees: { fifo: true, durable: true },
    create: async () => modelHarness(zookeeperShaped(shape)),
  });
