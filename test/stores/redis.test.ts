// The Redis store against the conformance suite: a real server that keeps every write, real time, through ioredis and
// through node-redis. Each test has a prefix of its own on the one server.

import { setTimeout as sleep } from "node:timers/promises";
import { systemParts } from "../../src/runtime/system.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { type StoreHarness, storeSuite } from "../../src/testing/index.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";
import { onSharedServer } from "../support/store-runner.ts";

const redis = useServer(startRedis, { appendonly: true, appendfsync: "always" });
let prefixes = 0;

for (const library of ["ioredis", "redis"] as const) {
  storeSuite(onSharedServer, {
    name: `redis through ${library}`,
    // Fifty grants in a row have to fit into it, each with a flush, on a busy machine too.
    ttlMs: 1_500,
    guarantees: { fifo: true, durable: true },
    create: async () => harness(redis(), library),
  });
}

function harness(server: RedisServer, library: "ioredis" | "redis"): StoreHarness {
  prefixes += 1;
  const prefix = `suite${prefixes}`;
  const open = redisStore({ url: server.url, library, prefix });
  return {
    open: () => open(systemParts()),
    sleep: (ms) => sleep(ms),
    now: () => performance.now(),
    restart: async () => {
      await server.kill();
      await server.start();
    },
    deleteRows: async (resource) => {
      const deleted = await server.command("DEL", `{${prefix}}:r:${resource}`);
      if (deleted !== 1) throw new Error("there was nothing to delete: the key has another name");
    },
    setToken: async (_resource, token) => {
      // The first script on a server starts an era above the counter, so that comes first.
      await (await open(systemParts())).close();
      await server.command("SET", `{${prefix}}:token`, String(token));
    },
    close: async () => undefined,
  };
}
