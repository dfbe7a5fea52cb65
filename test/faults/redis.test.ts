// Goal: on Redis the invariants hold under every fault. Method: real processes, a real server, recorded histories.
import { startRedis } from "../servers/redis.ts";
import { redisRequests } from "../servers/requests.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { allFaults } from "./all-faults.ts";

allFaults({
  name: "redis",
  start: () => startRedis({ own: true }),
  startDurable: () => startRedis({ appendonly: true, appendfsync: "always" }),
  startForgetful: () => startRedis({ own: true }),
  libraries: ["ioredis", "redis"],
  // Keys expire when somebody asks for them.
  lagMs: 0,
  timing: usualTiming,
  counted: {
    start: () => startRedis({ own: true }),
    requests: redisRequests,
    // The renewal, and a look every five seconds.
    perRenewal: 1.6,
  },
});
