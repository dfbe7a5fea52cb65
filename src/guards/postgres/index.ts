// The guard for data in PostgreSQL. The highest tokens are in a table of the same database, so the
// comparison, the new highest and the user's writes are one transaction. The guard works on the
// user's own pool, client or postgres.js instance. The rule itself is a function in the database
// (functions.ts), so that programs in other languages can use it.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { OptionNames } from "../../core/options.ts";
import { decodeToken } from "../../core/record.ts";
import { checkResource } from "../../core/resource.ts";
import { formatToken } from "../../core/token.ts";
import {
  type AdvanceOptions,
  checkBound,
  checkLimit,
  checkWrite,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  resolveLastingSource,
  splitArguments,
  type TokenSource,
} from "../guard.ts";
import {
  type Connection,
  type PostgresTarget,
  type TransactionOf,
  toConnection,
} from "./connection.ts";
import { explainFailure, type Step } from "./failures.ts";
import { checkSchema, DEFAULT_SCHEMA, toSqlText } from "./sql.ts";
import { ensureSchema } from "./tables.ts";

export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";
export type { InspectOptions, ProtectedTable } from "../shared/protected-table.ts";
export type {
  PgClient,
  PgPool,
  PostgresJs,
  PostgresTarget,
  TransactionOf,
} from "./connection.ts";
export { toTenureError } from "./failures.ts";
export { protectedTables } from "./inspect.ts";
export { type ResetOptions, resetHighest } from "./reset.ts";
export {
  type GuardSqlOptions,
  guardSql,
  type PrefixOptions,
  type ProtectOptions,
  protectSql,
  removeGuardSql,
  unprotectSql,
} from "./sql.ts";
export { protectTable, unprotectTable } from "./tables.ts";

/** Options of postgresGuard(). */
export interface PostgresGuardOptions extends GuardOptions {
  /**
   * The PostgreSQL schema of the highest tokens. All writers of the same data must use the same
   * one; otherwise they do not see each other's tokens. @default "tenure_guard"
   */
  readonly prefix?: string | undefined;
  /**
   * Creates a missing schema on first use, which needs the right to create one. If false, run
   * guardSql() yourself. @default true
   */
  readonly createSchema?: boolean | undefined;
  /**
   * The isolation level of guarded transactions. @default that of the database, usually read
   * committed
   */
  readonly isolation?: "read committed" | "repeatable read" | "serializable" | undefined;
  /**
   * How long a guarded transaction may be idle between two statements, in milliseconds. After that
   * the server closes its connection. This bounds how long a stopped holder delays its successor.
   * Too small: slow work between two statements is rolled back. Too large (above `waitMs` or
   * the ttl): a successor times out. It replaces the session's
   * `idle_in_transaction_session_timeout`. @default 5000
   */
  readonly idleMs?: number | undefined;
  /**
   * How long to wait for all open transactions of earlier terms together, in milliseconds.
   * `acquire(..., { guards })` also stops waiting shortly before the lease's first deadline. Too
   * small (below `idleMs`): a stopped holder makes its successor fail and retry. Too large: a
   * failure is reported late. @default 10000
   */
  readonly waitMs?: number | undefined;
}

const ISOLATIONS = ["read committed", "repeatable read", "serializable"];
const IDLE_MS = 5_000;
const WAIT_MS = 10_000;

const POSTGRES_GUARD_OPTIONS: OptionNames<PostgresGuardOptions> = {
  ...GUARD_OPTIONS,
  prefix: true,
  createSchema: true,
  isolation: true,
  idleMs: true,
  waitMs: true,
};

/**
 * A guard for data in a PostgreSQL database. `Transaction` is what the write gets: the client of
 * pg, or the `sql` of postgres.js.
 */
export interface PostgresGuard<Transaction> extends Guard {
  /**
   * Compares the token and runs the write in one transaction, and resolves with the result of the
   * write. A stale token or a lost lease rejects before the function is called. If the function
   * throws, or the lease is lost before the commit, everything is rolled back, including the
   * highest token. The function must not begin or end a transaction itself. Without a source, it
   * uses the lease of the `lease.run()` around the call.
   */
  transaction<T>(write: (transaction: Transaction) => T | Promise<T>): Promise<T>;
  /** The same, with an explicit lease or token. */
  transaction<T>(
    source: TokenSource,
    write: (transaction: Transaction) => T | Promise<T>,
  ): Promise<T>;
  /** Waits for open transactions of earlier terms, at most `waitMs`. */
  advance(source?: TokenSource, options?: AdvanceOptions): Promise<void>;
  /** Resolves with the highest token of the resource, or undefined before the first. */
  highest(resource: string): Promise<bigint | undefined>;
  /** The names of the methods above that write, for boundedBy(). */
  readonly writeMethods: readonly "transaction"[];
}

/**
 * Creates a guard for the data of your own Pool or connected Client of pg, or instance (`sql`) of
 * postgres.js. The guard does not close it. All writers of the same data need a guard, or use
 * protectTable() to reject writes without one.
 */
export function postgresGuard<Target extends PostgresTarget>(
  target: Target,
  options: PostgresGuardOptions = {},
): PostgresGuard<TransactionOf<Target>> {
  type Write<T> = (transaction: TransactionOf<Target>) => T | Promise<T>;
  const connection = toConnection(target);
  const bound = checkBound("postgresGuard()", options, POSTGRES_GUARD_OPTIONS);
  const schema = checkSchema(options.prefix ?? DEFAULT_SCHEMA);
  const isolation = checkIsolation(options.isolation);
  const idleMs = checkLimit("idleMs", options.idleMs ?? IDLE_MS);
  const waitMs = checkLimit("waitMs", options.waitMs ?? WAIT_MS);
  const ready = (options.createSchema ?? true) ? onceReady(connection, schema) : undefined;

  function admitSql({ resource, token }: TokenSource, atMostMs = Number.POSITIVE_INFINITY): string {
    return `"${schema}".admit(${toSqlText(resource)}, ${formatToken(token)}, ${Math.min(waitMs, atMostMs)})`;
  }

  async function explainErrors<T>(
    resource: string,
    act: (begin: (step: Step) => void) => Promise<T>,
  ): Promise<T> {
    let step: Step = "opening";
    try {
      await ready?.();
      return await act((begun) => {
        step = begun;
      });
    } catch (error) {
      throw explainFailure(error, { resource, schema, step });
    }
  }

  return {
    writeMethods: ["transaction"],
    transaction: async <T>(...args: [TokenSource, Write<T>] | [Write<T>]): Promise<T> => {
      const [given, write] = splitArguments(args);
      checkWrite(write);
      const source = resolveLastingSource(given, bound);
      // One statement with one column, because each more costs server and client some time. now()
      // is the start of the transaction: if it differs from the time of this statement, the
      // connection was already in a transaction.
      const statement = `SELECT CASE WHEN ${admitSql(source)} IS NOT NULL
        AND set_config('idle_in_transaction_session_timeout', '${idleMs}', true) IS NOT NULL
        THEN (now() = statement_timestamp())::text END AS fresh`;
      const work = (transaction: unknown): T | Promise<T> => {
        // The lease may have ended while the comparison waited.
        source.check?.();
        return write(transaction as TransactionOf<Target>);
      };
      // The work may have taken long, and its result must not be committed after the lease has
      // ended.
      const beforeCommit = (): void => void source.check?.();
      return explainErrors(source.resource, (step) =>
        connection.transaction({ isolation, statement }, work, { step, beforeCommit }),
      );
    },
    advance: async (given, { limitMs } = {}) => {
      const source = resolveLastingSource(given, bound);
      const admit = admitSql(source, waitWithin(limitMs));
      await explainErrors(source.resource, () => connection.run(`SELECT ${admit}`));
    },
    highest: async (resource) => {
      const where = `WHERE resource = ${toSqlText(checkResource(resource))}`;
      const query = `SELECT token::text AS token FROM "${schema}".highest ${where}`;
      const [row] = await explainErrors(resource, () => connection.run(query));
      return row === undefined ? undefined : decodeToken(String(row.token));
    },
  };
}

/** Creates the schema on the first call. Repeated after a failure. */
function onceReady(connection: Connection, schema: string): () => Promise<void> {
  let ready: Promise<void> | undefined;
  return () => {
    ready ??= ensureSchema(connection, schema).catch((error: unknown) => {
      ready = undefined;
      throw error;
    });
    return ready;
  };
}

/** How long admit() may wait for other transactions, so that its answer is still in time. */
function waitWithin(limitMs: number | undefined): number | undefined {
  return limitMs === undefined ? undefined : Math.max(1, Math.floor(limitMs * 0.9));
}

function checkIsolation(isolation: unknown): string | undefined {
  if (isolation === undefined || ISOLATIONS.includes(isolation as string))
    return isolation as string | undefined;
  throw new InvalidArgumentError(
    `\`isolation\` must be one of ${ISOLATIONS.join(", ")}, got ${String(isolation)}.`,
  );
}
