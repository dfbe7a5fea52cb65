// Runs the conformance suite and a handover on PostgreSQL through a real connection pooler in
// transaction mode. The whole contract holds; only waiters are woken by polling.

import { setTimeout as sleep } from "node:timers/promises";
import postgresJs from "postgres";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect, type Tenure } from "../../../src/index.ts";
import { type PostgresOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { storeSuite } from "../../../src/testing/index.ts";
import { startPgBouncer } from "../../servers/pgbouncer.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { postgresForgets, postgresHarness } from "../../support/stores/postgres-harness.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

const postgres = useServer(startPostgres, {
  settings: { max_connections: "100" },
});
const pooler = useServer(() => startPgBouncer(postgres()));

storeSuite(onSharedServer, {
  name: "postgres through pg and a pooler",
  ttlMs: 1_500,

  guarantees: { fifo: true, durable: true },
  forgets: postgresForgets,
  create: async () => postgresHarness(postgres(), { url: pooler().url, library: "pg" }),
});

describe("through a pooler", () => {
  const clients: Record<string, () => PostgresOptions> = {
    "pg by URL": () => ({ url: pooler().url, library: "pg" }),
    "pg, listening past the pooler": () => ({ url: pooler().url, listen: postgres().url }),
    "postgres.js without prepared statements": () => {
      const sql = postgresJs(pooler().url, { prepare: false });
      onTestFinished(() => sql.end({ timeout: 1 }));
      return { client: sql };
    },
  };

  test.each(Object.keys(clients))(
    "%s: sixty-four concurrent grants succeed, and a waiter is served after a release",
    async (name) => {
      const open = async (): Promise<Tenure> => {
        const tenure = await connect(postgresStore({ ...clients[name]?.(), prefix: "pooled" }));
        onTestFinished(() => tenure.close());
        return tenure;
      };
      const [one, two] = [await open(), await open()];
      // Far more clients than server connections, so that requests reuse connections of others.
      const names = Array.from({ length: 64 }, (_, i) => `${name} ${i}`);
      const leases = await Promise.all(names.map((resource) => one.acquire(resource)));
      expect(await Promise.all(names.map((resource) => two.tryAcquire(resource)))).toEqual(
        names.map(() => undefined),
      );
      const waiting = two.acquire(`${name} 0`, { waitMs: 20_000 });
      await sleep(300);
      await Promise.all(leases.map((lease) => lease.release()));
      expect((await waiting).token).toBeGreaterThan(leases[0]?.token ?? 0n);
    },
  );
});
