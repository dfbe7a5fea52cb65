// Goal: on Redis the invariants hold under every fault. Method: real processes, a real server, recorded histories.
import { startRedis } from "../servers/redis.ts";
import { faultTests, usualTiming } from "../support/fault-engine.ts";
import { holderFaults } from "./holder-faults.ts";
import { linkFaults } from "./link-faults.ts";
import { storeFaults } from "./store-faults.ts";

const engine = {
  name: "redis",
  start: () => startRedis({ own: true }),
  startDurable: () => startRedis({ appendonly: true, appendfsync: "always" }),
  startForgetful: () => startRedis({ own: true }),
  libraries: ["ioredis", "redis"],
  // Keys expire when somebody asks for them.
  lagMs: 0,
  timing: usualTiming,
} as const;

const tests = faultTests(engine);
holderFaults(engine, tests);
linkFaults(engine, tests);
storeFaults(engine, tests);
