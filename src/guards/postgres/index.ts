// The guard for data in PostgreSQL: the highest tokens live in a table of that same database, so that the comparison, the
// advanced highest and the user's writes are one transaction, committed or rolled back together. It works on the user's
// own pool, client or instance. The rule itself is in the database (postgres/sql.ts), where every language finds it.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { formatToken, parseToken } from "../../core/token.ts";
import {
  type AdvanceOptions,
  checkBound,
  checkLimit,
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
export type {
  PgClient,
  PgPool,
  PostgresJs,
  PostgresTarget,
  TransactionOf,
} from "./connection.ts";
export { toTenureError } from "./failures.ts";
export { type ProtectedTable, protectedTables } from "./inspect.ts";
export { type ResetOptions, resetHighest } from "./reset.ts";
export {
  type GuardSqlOptions,
  guardSql,
  protectSql,
  removeGuardSql,
  unprotectSql,
} from "./sql.ts";
export { protectTable, unprotectTable } from "./tables.ts";

export interface PostgresGuardOptions extends GuardOptions {
  /**
   * Where the highest tokens are kept. All who write to the same data must name the same, or they do not see each other's
   * tokens. @default "tenure_guard"
   */
  readonly schema?: string | undefined;
  /** Whether a missing schema is made at the first use; needs the right to create. Off: run guardSql(). @default true */
  readonly createSchema?: boolean | undefined;
  /** The isolation of guarded transactions. @default the database's own, usually read committed */
  readonly isolation?: "read committed" | "repeatable read" | "serializable" | undefined;
  /**
   * How long a guarded transaction may be idle between two statements, in milliseconds; then the server ends its connection.
   * This bounds how long a stopped holder keeps its successor waiting. Too small: slow work between two statements is rolled
   * back. Too large (above `waitLimitMs` or the ttl): a successor fails while it waits. It replaces the session's own
   * `idle_in_transaction_session_timeout`. @default 5000
   */
  readonly idleLimitMs?: number | undefined;
  /**
   * How long to wait for open transactions of earlier terms, in milliseconds and in total. `acquire(..., { guards })` also stops
   * waiting shortly before the lease's first deadline. Too small (below `idleLimitMs`): a stopped holder makes its successor fail
   * and try again. Too large: a failure is reported late. @default 10000
   */
  readonly waitLimitMs?: number | undefined;
}

const POSTGRES_GUARD_OPTIONS: OptionNames<PostgresGuardOptions> = {
  ...GUARD_OPTIONS,
  schema: true,
  createSchema: true,
  isolation: true,
  idleLimitMs: true,
  waitLimitMs: true,
};

export interface PostgresGuard<Transaction> extends Guard {
  /**
   * Runs the write in one transaction, behind the comparison, and resolves with what it returns. A stale token or a lost
   * lease rejects before the function is called; when the function throws, or the lease is lost before the commit, all is
   * rolled back, also the highest. The function must not begin or end a transaction of its own. Without a source: under the
   * lease of the `lease.run()` around the call.
   */
  transaction<T>(write: (transaction: Transaction) => T | Promise<T>): Promise<T>;
  transaction<T>(
    source: TokenSource,
    write: (transaction: Transaction) => T | Promise<T>,
  ): Promise<T>;
  /** Waits for open transactions of earlier terms, for `waitLimitMs` at most. */
  advance(source?: TokenSource, options?: AdvanceOptions): Promise<void>;
  highest(resource: string): Promise<bigint | undefined>;
  readonly writeMethods: readonly "transaction"[];
}

export function postgresGuard<Target extends PostgresTarget>(
  target: Target,
  options: PostgresGuardOptions = {},
): PostgresGuard<TransactionOf<Target>> {
  return new GuardOnPostgres(target, options);
}

const ISOLATIONS = ["read committed", "repeatable read", "serializable"];
const IDLE_LIMIT_MS = 5_000;
const WAIT_LIMIT_MS = 10_000;

class GuardOnPostgres<Target extends PostgresTarget>
  implements PostgresGuard<TransactionOf<Target>>
{
  readonly writeMethods = ["transaction"] as const;
  readonly #connection: Connection;
  readonly #bound: string | undefined;
  readonly #schema: string;
  readonly #createSchema: boolean;
  readonly #isolation: string | undefined;
  readonly #idleLimitMs: number;
  readonly #waitLimitMs: number;
  #ready: Promise<void> | undefined;

  constructor(target: Target, options: PostgresGuardOptions) {
    this.#connection = toConnection(target);
    this.#bound = checkBound("postgresGuard()", options, POSTGRES_GUARD_OPTIONS);
    this.#schema = checkSchema(options.schema ?? DEFAULT_SCHEMA);
    this.#createSchema = options.createSchema ?? true;
    this.#isolation = checkIsolation(options.isolation);
    this.#idleLimitMs = checkLimit("idleLimitMs", options.idleLimitMs ?? IDLE_LIMIT_MS);
    this.#waitLimitMs = checkLimit("waitLimitMs", options.waitLimitMs ?? WAIT_LIMIT_MS);
  }

  async transaction<T>(
    ...args:
      | [TokenSource, (transaction: TransactionOf<Target>) => T | Promise<T>]
      | [(transaction: TransactionOf<Target>) => T | Promise<T>]
  ): Promise<T> {
    const [given, write] = splitArguments(args);
    if (typeof write !== "function") {
      throw new InvalidArgumentError(
        `A guard needs a function that does the write, got ${typeof write}.`,
      );
    }
    const source = resolveLastingSource(given, this.#bound);
    const opening = {
      isolation: this.#isolation,
      // One statement with one column, because each costs server and client a little. The clock of a transaction stands
      // still: where it shows another time than the message that began it, the transaction is older and not ours.
      statement: `SELECT CASE WHEN ${this.#admit(source)} IS NOT NULL
        AND set_config('idle_in_transaction_session_timeout', '${this.#idleLimitMs}', true) IS NOT NULL
        THEN (now() = statement_timestamp())::text END AS fresh`,
    };
    const work = (transaction: unknown): T | Promise<T> => {
      // Waiting for the comparison may have outlasted the lease.
      source.check?.();
      return write(transaction as TransactionOf<Target>);
    };
    return this.#explainErrors(source.resource, (step) =>
      // And so may the work: what a lease allowed at its start is not committed after its end.
      this.#connection.transaction(opening, work, { step, beforeCommit: () => source.check?.() }),
    );
  }

  async advance(given?: TokenSource, { limitMs }: AdvanceOptions = {}): Promise<void> {
    const source = resolveLastingSource(given, this.#bound);
    const admit = this.#admit(source, waitWithin(limitMs));
    await this.#explainErrors(source.resource, () => this.#connection.run(`SELECT ${admit}`));
  }

  async highest(resource: string): Promise<bigint | undefined> {
    const where = `WHERE resource = ${toSqlText(checkResource(resource))}`;
    const [row] = await this.#explainErrors(resource, () =>
      this.#connection.run(`SELECT token::text AS token FROM "${this.#schema}".highest ${where}`),
    );
    return row === undefined ? undefined : parseToken(String(row.token));
  }

  #admit({ resource, token }: TokenSource, patienceMs = Number.POSITIVE_INFINITY): string {
    const waitMs = Math.min(this.#waitLimitMs, patienceMs);
    return `"${this.#schema}".admit(${toSqlText(resource)}, ${formatToken(token)}, ${waitMs})`;
  }

  async #explainErrors<T>(
    resource: string,
    act: (step: (step: Step) => void) => Promise<T>,
  ): Promise<T> {
    let step: Step = "opening";
    try {
      await this.#ensureSchema();
      return await act((begun) => {
        step = begun;
      });
    } catch (error) {
      throw explainFailure(error, { resource, schema: this.#schema, step });
    }
  }

  /** Once for each guard; tried again after a failure. */
  #ensureSchema(): Promise<void> {
    if (!this.#createSchema) return Promise.resolve();
    this.#ready ??= ensureSchema(this.#connection, this.#schema).catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }
}

/** How long to wait for others, so that the answer is still in time. */
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
