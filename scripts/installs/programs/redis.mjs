// Runs the Redis store from a URL and on the user's own client, and the guard. `LIBRARY` is ioredis
// or redis. At the end, the server must have no connection except that of the user.
import assert from "node:assert/strict";
import { connect } from "tenure";
import { redisGuard } from "tenure/guards/redis";
import { MemoryBackend, memoryStore } from "tenure/stores/memory";
import { redisStore } from "tenure/stores/redis";

const { TENURE_URL: url, LIBRARY: library } = process.env;

async function ownClient() {
  if (library === "ioredis") {
    const { default: Redis } = await import("ioredis");
    const client = new Redis(url);
    return { client, send: (...words) => client.call(...words), end: () => client.disconnect() };
  }
  const { createClient } = await import("redis");
  const client = createClient({ url });
  // redis 3 connects by itself.
  await client.connect?.();
  const end = () =>
    client.destroy ? client.destroy() : (client.disconnect ?? client.end).call(client);
  return { client, send: (...words) => client.sendCommand(words), end };
}

async function leaseOver(store) {
  const tenure = await connect(store);
  const first = await tenure.acquire("installs/lease", { waitMs: 20_000 });
  const waiting = tenure.acquire("installs/lease", { waitMs: 20_000 });
  assert.equal(await tenure.tryAcquire("installs/lease"), undefined);
  await first.release();
  const second = await waiting;
  assert.ok(second.token > first.token, `${second.token} is not above ${first.token}`);
  await tenure.close();
}

/** The parts of the program. `PART` selects one; without it, all run. */
const parts = {
  url: () => leaseOver(redisStore({ url, library, prefix: "by-url" })),
  client: (client) => leaseOver(redisStore({ client, prefix: "own-client" })),
  guard: async (client) => {
    const guard = redisGuard(client);
    const tenure = await connect(memoryStore(new MemoryBackend()));
    await tenure.withLease("installs/guard", async (lease) => {
      await guard.set(lease, "installs:value", "written");
    });
    assert.equal(await client.get("installs:value"), "written");
    await client.del("installs:value");
    await tenure.close();
  },
};

const { client, send, end } = await ownClient();
try {
  for (const [name, part] of Object.entries(parts)) {
    if (!process.env.PART || process.env.PART === name) await part(client);
  }
  const left = async () => String(await send("CLIENT", "LIST")).trim();
  const until = Date.now() + 20_000;
  while ((await left()).includes("\n")) {
    assert.ok(Date.now() < until, `connections left open:\n${await left()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
} finally {
  end();
}
console.log("passed");
