// Goal: the invariants hold on Redis under every fault. Method: real processes, a real server, and
// recorded histories.
import { startRedis } from "../servers/redis.ts";
import { redisRequests } from "../servers/requests.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { testAllFaults } from "./all-faults.ts";

testAllFaults({
  name: "redis",
  start: () => startRedis({ own: true }),
  startDurable: () => startRedis({ appendonly: true, appendfsync: "always" }),
  startForgetful: () => startRedis({ own: true }),
  libraries: ["ioredis", "redis"],
  // An expired key is gone for every request.
  lagMs: 0,
  timing: usualTiming,
  counted: {
    start: () => startRedis({ own: true }),
    requests: redisRequests,
    // The renewal, and a check every five seconds.
    perRenewal: 1.6,
  },
});
