// A guard schema and a table of entries on a PostgreSQL server, for the conformance suite and the
// guard's own tests.

import pg from "pg";
import postgres from "postgres";
import { afterEach } from "vitest";
import {
  type PostgresGuard,
  type PostgresGuardOptions,
  postgresGuard,
} from "../../../src/guards/postgres/index.ts";
import type { GuardHarness } from "../../../src/testing/index.ts";
import type { PostgresServer } from "../../servers/postgres.ts";

export type Library = "pg" | "postgres";

/** A guard of either library, with one function to append. */
export interface LedgerGuard {
  readonly guard: PostgresGuard<unknown>;
  append(tx: unknown, resource: string, text: string): Promise<void>;
}

let worlds = 0;

/** A separate guard schema and table on a shared server. */
export class Ledger {
  readonly schema: string;
  readonly table: string;
  readonly #server: PostgresServer;
  readonly #ends: (() => Promise<void>)[] = [];

  private constructor(server: PostgresServer) {
    worlds += 1;
    this.schema = `guard_${worlds}`;
    this.table = `public.entry_${worlds}`;
    this.#server = server;
  }

  static async create(server: PostgresServer): Promise<Ledger> {
    const ledger = new Ledger(server);
    await server.sql(
      `CREATE TABLE ${ledger.table} (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, resource text, text text)`,
    );
    return ledger;
  }

  pool(url: string = this.#server.url): pg.Pool {
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    // A restart of the server closes idle connections.
    pool.on("error", () => undefined);
    this.#ends.push(() => pool.end());
    return pool;
  }

  sql(url: string = this.#server.url): postgres.Sql {
    const sql = postgres(url, { max: 4, onnotice: () => undefined });
    this.#ends.push(() => sql.end({ timeout: 1 }));
    return sql;
  }

  guard(library: Library = "pg", options: PostgresGuardOptions = {}, url?: string): LedgerGuard {
    const { schema, table } = this;
    const insert = `INSERT INTO ${table} (resource, text) VALUES ($1, $2)`;
    if (library === "pg") {
      const guard = postgresGuard(this.pool(url), { prefix: schema, ...options });
      return {
        guard: guard as PostgresGuard<unknown>,
        append: async (tx, ...values) => void (await (tx as pg.PoolClient).query(insert, values)),
      };
    }
    const guard = postgresGuard(this.sql(url), { prefix: schema, ...options });
    return {
      guard: guard as PostgresGuard<unknown>,
      append: async (tx, ...values) =>
        void (await (tx as postgres.TransactionSql).unsafe(insert, values)),
    };
  }

  /** All rows in the order of the table, read through psql. */
  async written(resource?: string): Promise<string[]> {
    const where = resource === undefined ? "" : `WHERE resource = $q$${resource}$q$`;
    const text = await this.#server.sql(`SELECT text FROM ${this.table} ${where} ORDER BY seq`);
    return text === "" ? [] : text.split("\n");
  }

  async close(): Promise<void> {
    for (const end of this.#ends) await end().catch(() => undefined);
    this.#ends.length = 0;
  }
}

export async function ledgerHarness(
  server: PostgresServer,
  library: Library,
): Promise<GuardHarness> {
  const ledger = await Ledger.create(server);
  return {
    open: (options) => {
      const { guard, append } = ledger.guard(library, options);
      return {
        advance: (source) => guard.advance(source),
        highest: (resource) => guard.highest(resource),
        write: (source, text, { fail = false } = {}) => {
          const write = async (tx: unknown): Promise<void> => {
            await append(tx, source?.resource ?? "ledger", text);
            if (fail) throw new Error("on purpose");
          };
          return source === undefined ? guard.transaction(write) : guard.transaction(source, write);
        },
      };
    },
    written: (resource) => ledger.written(resource),
    restart: async () => {
      await ledger.close();
      await server.kill();
      await server.start();
    },
    close: () => ledger.close(),
  };
}

/** Call it at the top of a test file. The ledgers are closed after each test. */
export function useLedgers(server: () => PostgresServer): () => Promise<Ledger> {
  const opened: Ledger[] = [];
  afterEach(async () => {
    for (const ledger of opened.splice(0)) await ledger.close();
  });
  return async () => {
    const ledger = await Ledger.create(server());
    opened.push(ledger);
    return ledger;
  };
}
