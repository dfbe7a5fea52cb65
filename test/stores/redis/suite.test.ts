// Runs the conformance suite on the Redis store, through ioredis and through node-redis: one real
// server that persists every write, real time, and a separate prefix for each test.
import { setTimeout as sleep } from "node:timers/promises";
import { systemParts } from "../../../src/runtime/system.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { type StoreHarness, storeSuite } from "../../../src/testing/index.ts";
import { type RedisServer, startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

const redis = useServer(startRedis, { appendonly: true, appendfsync: "always" });
let prefixes = 0;

for (const library of ["ioredis", "redis"] as const) {
  storeSuite(onSharedServer, {
    name: `redis through ${library}`,
    // Long enough for fifty grants in a row, each with a flush to disk, even on a busy machine.
    ttlMs: 1_500,
    guarantees: { fifo: true, durable: true },
    forgets: [
      "the counter was deleted",
      "everything was deleted",
      "an older snapshot was restored",
    ],
    create: async () => harness(redis(), library),
  });
}

function harness(server: RedisServer, library: "ioredis" | "redis"): StoreHarness {
  prefixes += 1;
  const prefix = `suite${prefixes}`;
  const keys = async (): Promise<string[]> =>
    (await server.command("KEYS", `{${prefix}}:*`)) as string[];
  const removeKeys = async (): Promise<void> => {
    await server.command("DEL", ...(await keys()));
  };
  const open = redisStore({ url: server.url, library, prefix });
  return {
    open: () => open(systemParts()),
    sleep: (ms) => sleep(ms),
    now: () => performance.now(),
    restart: async () => {
      await server.kill();
      await server.start();
    },
    forgetting: {
      "the counter was deleted": async () => async () => {
        await server.command("DEL", `{${prefix}}:token`);
      },
      "everything was deleted": async () => removeKeys,
      "an older snapshot was restored": async () => {
        const copy = new Map<string, string>();
        const texts = (await keys()).filter((key) => key.endsWith(":token") || key.includes(":r:"));
        for (const key of texts) copy.set(key, String(await server.command("GET", key)));
        return async () => {
          await removeKeys();
          // Without its cached scripts, like a server process that has just started.
          for (const [key, text] of copy) await server.command("SET", key, text);
          await server.command("SCRIPT", "FLUSH");
        };
      },
    },
    deleteRows: async (resource) => {
      const deleted = await server.command("DEL", `{${prefix}}:r:${resource}`);
      if (deleted !== 1) throw new Error("there was nothing to delete: the key has another name");
    },
    setToken: async (_resource, token) => {
      // Opening a store starts an era above the counter, so this must happen first.
      await (await open(systemParts())).close();
      await server.command("SET", `{${prefix}}:token`, String(token));
    },
    close: async () => undefined,
  };
}
