// Runs the public conformance suite (tenure/testing) with a minimal test runner, because no test
// framework runs on every runtime. `STORES` names the stores: memory, sqlite, redis or postgres.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "tenure";
import { MemoryBackend, memoryStore } from "tenure/stores/memory";
import { postgresStore } from "tenure/stores/postgres";
import { redisStore } from "tenure/stores/redis";
import { sqliteStore } from "tenure/stores/sqlite";
import { ManualClock, manualRandom, storeSuite } from "tenure/testing";

const { STORES = "", TENURE_URL: url, LIBRARY: library } = process.env;
/** The number of concurrent tests. A test spends most of its time waiting for a ttl. */
const AT_ONCE = 8;

class Skip extends Error {}
const tests = [];
const path = [];
const runner = {
  describe: (name, body) => {
    path.push(name);
    body();
    path.pop();
  },
  test: (name, body) => tests.push({ name: [...path, name].join(" > "), body }),
};

/** The clock and randomness of this process, which connect() passes to every store. */
async function realParts() {
  let given;
  const tenure = await connect((parts) => {
    given = parts;
    return memoryStore(new MemoryBackend())(parts);
  });
  await tenure.close();
  return given;
}

const parts = await realParts();
const realTime = { sleep: (ms) => sleep(ms), now: () => performance.now() };
let names = 0;

const stores = {
  memory: {
    ttlMs: 10_000,
    durable: false,
    create: async () => {
      const clock = new ManualClock();
      const open = memoryStore(new MemoryBackend());
      return {
        open: () => open({ ...parts, clock, hostClock: clock.hostClock, random: manualRandom() }),
        sleep: (ms) => clock.advance(ms),
        now: () => clock.now(),
        close: async () => undefined,
      };
    },
  },
  sqlite: {
    ttlMs: 2_000,
    durable: true,
    create: async () => {
      const folder = mkdtempSync(join(tmpdir(), "tenure-conformance-"));
      const open = sqliteStore({ file: join(folder, "store.db") });
      const close = async () => rmSync(folder, { recursive: true, force: true });
      return { ...realTime, open: () => open(parts), close };
    },
  },
  redis: {
    ttlMs: 2_000,
    durable: false,
    create: async () => {
      const prefix = `suite${process.pid}_${names++}`;
      const open = redisStore({ url, library, prefix, onWarning: () => {} });
      return { ...realTime, open: () => open(parts), close: async () => undefined };
    },
  },
  postgres: {
    ttlMs: 2_000,
    durable: true,
    create: async () => {
      const open = postgresStore({ url, library, prefix: `suite${process.pid}_${names++}` });
      return { ...realTime, open: () => open(parts), close: async () => undefined };
    },
  },
};

for (const name of STORES.split(",")) {
  const { durable, ...subject } = stores[name];
  storeSuite(runner, { name, ...subject, guarantees: { fifo: true, durable } });
}

const counts = { passed: 0, failed: 0, skipped: 0 };
const skip = (reason) => {
  throw new Skip(reason);
};
const waiting = [...tests];
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let test = waiting.shift(); test !== undefined; test = waiting.shift()) {
      try {
        await test.body(skip);
        counts.passed += 1;
      } catch (error) {
        counts[error instanceof Skip ? "skipped" : "failed"] += 1;
        if (!(error instanceof Skip)) console.log(`${test.name}: ${error?.stack ?? error}`);
      }
    }
  }),
);
console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
if (counts.failed > 0 || counts.passed === 0) process.exit(1);
console.log("passed");
process.exit(0);
