// Goal: whatever is wrong with the server, the login or the schema, opening the store fails in time
// and says what is wrong and which setting fixes it. Method: real servers that are set up wrongly,
// through both client libraries.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect } from "../../../src/connect.ts";
import type { TenureError } from "../../../src/core/errors.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import {
  migrationSql,
  type PostgresOptions,
  postgresStore,
} from "../../../src/stores/postgres/index.ts";
import { SCHEMA_VERSION } from "../../../src/stores/postgres/schema.ts";
import { withFreePorts } from "../../servers/ports.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

const LIMIT_MS = 3_000;
const server = useServer(startPostgres, { password: "right", tls: true });
const plain = useServer(startPostgres, { settings: { max_connections: "60" } });
let schemas = 0;

function newSchema(): string {
  schemas += 1;
  return `faults_${schemas}`;
}

function open(options: PostgresOptions): Promise<Store> {
  return postgresStore({ connectMs: LIMIT_MS, ...options })(systemParts());
}

/** The error of opening the store, which must come within the limit. */
async function refusal(options: PostgresOptions): Promise<TenureError & { applied?: string }> {
  const stopwatch = startStopwatch();
  const outcome = await open(options).then(
    async (store) => {
      await store.close();
      throw new Error("The store opened.");
    },
    (error: TenureError) => error,
  );
  // The limit, and up to a second to close what was half open.
  expect(stopwatch.elapsedMs()).toBeLessThan(LIMIT_MS + 1_500);
  return outcome;
}

function changeUrl(url: string, change: (parts: URL) => void): string {
  const parts = new URL(url);
  change(parts);
  return parts.href;
}

describe.each(["pg", "postgres"] as const)("opening through %s", (library) => {
  test("a wrong password is named as the cause and never shown", async () => {
    const url = changeUrl(server().url, (parts) => {
      parts.password = "wr0ng-secret";
    });
    const error = await refusal({ url, library });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/refused the login: .*password.* Check user, password/);
    expect(error.message).not.toContain("wr0ng-secret");
  });

  test("an unreachable port is named with its host, and nothing was applied", async () => {
    const port = await withFreePorts(1, async ([free]) => free);
    const error = await refusal({ url: `postgres://postgres@127.0.0.1:${port}/postgres`, library });
    expect(error.code).toBe("STORE_UNAVAILABLE");
    expect(error.applied).toBe("no");
    expect(error.message).toContain(`127.0.0.1:${port}/postgres cannot be reached`);
    expect(error.message).toContain("Check host and port");
  });

  test("opening a server that never answers fails at the limit", async () => {
    await using proxy = await startProxy(plain());
    proxy.cut();
    const error = await refusal({ url: proxy.url, library, connectMs: 700 });
    expect(error.code).toBe("STORE_UNAVAILABLE");
    expect(error.retryable).toBe(true);
    expect(error.message).toMatch(/ did not answer.* Check host and port/);
  });

  test("a server that is not PostgreSQL is reported as not answering", async () => {
    const foreign = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.write("SSH-2.0-OpenSSH_9.2\r\n");
    });
    foreign.listen(0, "127.0.0.1");
    await once(foreign, "listening");
    onTestFinished(() => void foreign.close());
    const { port } = foreign.address() as AddressInfo;
    const url = `postgres://u@127.0.0.1:${port}/app`;
    const error = await refusal({ url, library, connectMs: 700 });
    expect(error.code).toBe("STORE_UNAVAILABLE");
    expect(error.message).toMatch(/ did not answer.* Check host and port/);
  });

  test("a database that does not exist is named in the error", async () => {
    const url = changeUrl(plain().url, (parts) => {
      parts.pathname = "/nowhere";
    });
    const error = await refusal({ url, library });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/"nowhere" does not exist.* Check the database in the URL/);
  });

  test("the error for an untrusted certificate names sslmode", async () => {
    const url = changeUrl(server().url, (parts) => {
      parts.searchParams.set("sslmode", "verify-full");
    });
    const error = await refusal({ url, library });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/TLS .* failed: .*sslmode/);
  });

  test("the error for a role that may not create the schema says who should run what", async () => {
    const schema = newSchema();
    await plain().sql(`CREATE ROLE ${schema}_role LOGIN`);
    const url = changeUrl(plain().url, (parts) => {
      parts.username = `${schema}_role`;
    });
    const error = await refusal({ url, library, prefix: schema });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(
      /denied a permission: .*migrationSql\(\{ prefix: "faults_\d+", role \}\)/,
    );
    const without = await refusal({ url, library, prefix: schema, createSchema: false });
    expect(without.message).toMatch(/is not in the database .* createSchema: true/);

    await plain().sql(migrationSql({ prefix: schema, role: `${schema}_role` }));
    const store = await open({ url, library, prefix: schema, createSchema: false });
    await store.openSession({ sessionId: "s", holderId: "h", ttlMs: 5_000, limitMs: 1_000 });
    const grant = { sessionId: "s", holderId: "h", resource: "r", attempt: "a", queue: true };
    const outcome = await store.grant({ ...grant, limitMs: 1_000 });
    await store.close();
    const token = BigInt(await plain().sql(`SELECT token FROM ${schema}.lease`));
    expect(outcome).toEqual({ kind: "granted", token });
  });

  test("a schema of a newer version is rejected and left unchanged", async () => {
    const schema = newSchema();
    await (await open({ url: plain().url, library, prefix: schema })).close();
    await plain().sql(`UPDATE ${schema}.meta SET version = 99`);
    const error = await refusal({ url: plain().url, library, prefix: schema });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toContain(`(version 99, this one knows ${SCHEMA_VERSION})`);
    expect(error.message).toMatch(/newer Tenure .* Upgrade/);
  });

  test("a schema of an older version is rejected until migrationSql() was run, and keeps its leases", async () => {
    const schema = newSchema();
    const older = await open({ url: plain().url, library, prefix: schema });
    await older.openSession({ sessionId: "s", holderId: "h", ttlMs: 60_000, limitMs: 1_000 });
    const request = { sessionId: "s", holderId: "h", queue: false, limitMs: 1_000 };
    await older.grant({ ...request, resource: "before", attempt: "a" });
    await older.close();
    // What version 3 had in these tables.
    await plain().sql(
      `ALTER TABLE ${schema}.lease DROP COLUMN granted, ADD COLUMN freed timestamptz NOT NULL DEFAULT now();
       ALTER TABLE ${schema}.session DROP COLUMN channel, DROP COLUMN quiet_after_ms;
       ALTER TABLE ${schema}.waiter DROP COLUMN holder_id, DROP COLUMN rank, DROP COLUMN record;
       UPDATE ${schema}.meta SET version = 3`,
    );
    const error = await refusal({ url: plain().url, library, prefix: schema });
    expect(error.message).toContain(`has version 3; this Tenure needs ${SCHEMA_VERSION}`);
    expect(error.message).toContain("Run migrationSql(");

    await plain().sql(migrationSql({ prefix: schema }));
    const store = await open({ url: plain().url, library, prefix: schema });
    await store.grant({ ...request, resource: "since", attempt: "b" });
    const { leases } = await store.list({ prefix: "", limit: 10, limitMs: 1_000 });
    // As if the server's clock had been set back since the grant.
    await plain().sql(`UPDATE ${schema}.lease SET granted = granted + interval '1 hour'`);
    const ahead = await store.list({ prefix: "since", limit: 1, limitMs: 1_000 });
    await store.close();
    expect(ahead.leases[0]?.holder?.heldForMs).toBe(0);
    expect(leases.map(({ resource, holder }) => [resource, typeof holder?.heldForMs])).toEqual([
      ["before", "undefined"],
      ["since", "number"],
    ]);
  });

  test("the error for a role that may only read names the setting", async () => {
    const schema = newSchema();
    await plain().sql(
      `CREATE ROLE ${schema}_role LOGIN; ALTER ROLE ${schema}_role SET default_transaction_read_only = on`,
    );
    const url = changeUrl(plain().url, (parts) => {
      parts.username = `${schema}_role`;
    });
    const error = await refusal({ url, library, prefix: schema });
    expect(error.message).toContain("default_transaction_read_only is on");
  });

  test("sixteen stores that open concurrently create one schema", async () => {
    const schema = newSchema();
    const opening = Array.from({ length: 16 }, () =>
      open({ url: plain().url, library, prefix: schema, connectMs: 20_000 }),
    );
    const stores = await Promise.all(opening);
    await Promise.all(stores.map((store) => store.close()));
    expect(await plain().sql(`SELECT version FROM ${schema}.meta`)).toBe(String(SCHEMA_VERSION));
  });
});

describe("options", () => {
  test.each(["Tenure", "1st", 'a"b', "a b", "", "x".repeat(64), "a;drop"])(
    "the schema name %j is rejected before anything is opened",
    (schema) => {
      const options = { url: "postgres://127.0.0.1:1/none", prefix: schema };
      expect(() => postgresStore(options)).toThrow(
        /`prefix`, the PostgreSQL schema, must be a name of a-z/,
      );
    },
  );

  test("the error says so if all connections of the user's pool are in use", async () => {
    const pool = new pg.Pool({ connectionString: plain().url, max: 1 });
    onTestFinished(() => pool.end());
    const busy = await pool.connect();
    const error = await refusal({ client: pool, connectMs: 700 });
    expect(error.message).toMatch(/had no free connection within \d+ ms/);
    busy.release();
  });

  test("exactly one of url, pool and sql must be given", () => {
    expect(() => postgresStore({})).toThrow("needs either { url");
    const pool = { connect: () => Promise.reject(new Error("never")), totalCount: 0 };
    expect(() => postgresStore({ url: "postgres://x", client: pool })).toThrow(
      "needs either { url",
    );
  });

  test("connect() takes the schema and the store's other settings from the URL", async () => {
    const schema = newSchema();
    const url = `${plain().url}?prefix=${schema}&listen=0&application_name=mine`;
    const tenure = await connect(url);
    expect(tenure.guarantees.wakeUp).toBe("poll");
    const lease = await tenure.acquire("r");
    expect(await plain().sql(`SELECT resource FROM ${schema}.lease`)).toBe("r");
    await lease.release();
    await tenure.close();
    await expect(connect(`${plain().url}?prefix=Bad`)).rejects.toThrow("`prefix`, the PostgreSQL");
  });
});
