// Goal: each model of a backend behaves like the real one. Method: the conformance suite on every
// model, with the real code of the store and virtual time.

import { storeSuite } from "../../src/testing/index.ts";
import { sideBySide } from "../../test/support/stores/store-runner.ts";
import { etcdEngine } from "../models/etcd/index.ts";
import { memoryEngine } from "../models/memory/index.ts";
import type { Engine } from "../models/model.ts";
import { postgresEngine } from "../models/postgres/index.ts";
import { redisEngine } from "../models/redis/index.ts";
import { sqliteEngine } from "../models/sqlite/index.ts";
import { zookeeperShaped } from "../models/zookeeper/index.ts";
import { modelHarness } from "./support/model-bench.ts";

const models: readonly (readonly [name: string, ttlMs: number, engine: Engine])[] = [
  ["the memory store behind a network", 10_000, memoryEngine],
  ["SQLite on one simulated machine", 10_000, sqliteEngine],
  ["the model of PostgreSQL", 10_000, postgresEngine],
  ["the model of Redis", 4_000, redisEngine],
  ["the model of etcd", 4_000, etcdEngine],
  ["the model of ZooKeeper, alone", 4_000, zookeeperShaped("alone")],
  ["the model of ZooKeeper, listed", 4_000, zookeeperShaped("listed")],
  ["the model of ZooKeeper, balanced", 4_000, zookeeperShaped("balanced")],
];

for (const [name, ttlMs, engine] of models)
  storeSuite(sideBySide, {
    name,
    ttlMs,
    handsOff: [memoryEngine, postgresEngine, sqliteEngine].includes(engine),
    guarantees: { fifo: true, durable: true },
    create: async () => {
      await engine.ready?.();
      return modelHarness(engine);
    },
  });
