// One interface to both client libraries, pg and postgres.js: run a statement, or a transaction
// that begins with the comparison. With pg, BEGIN and the comparison are sent in one message, so a
// guarded transaction needs no more round trips than an ordinary one.

import { InvalidArgumentError } from "../../core/errors.ts";
import { beginSafely } from "./after-close.ts";
import type { Step } from "./failures.ts";

type Row = Readonly<Record<string, unknown>>;

/** The part of a pg connection that the guard uses: a Client, or a client of a Pool. */
export interface PgClient {
  /** Sends one query, as in pg. */
  // biome-ignore lint/suspicious/noExplicitAny: the overloads of pg's query() have no common type.
  query(...args: any[]): any;
  /** Adds a listener for connection errors. */
  on(event: "error", listener: (error: Error) => void): unknown;
  /** Removes such a listener. */
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** A Pool of pg. */
export interface PgPool {
  /** Takes a client out of the pool. */
  // biome-ignore lint/suspicious/noExplicitAny: it has overloads with and without a callback.
  connect(...args: any[]): any;
  /** The number of clients in the pool. Distinguishes a Pool from a Client. */
  readonly totalCount: number;
}

/** An instance (`sql`) of postgres.js. */
export interface PostgresJs {
  /** Runs a function in a transaction. */
  // biome-ignore lint/suspicious/noExplicitAny: it has overloads with and without options.
  begin(...args: any[]): Promise<any>;
  /** Sends a statement as text. */
  // biome-ignore lint/suspicious/noExplicitAny: it returns an extended promise.
  unsafe(text: string, ...args: any[]): PromiseLike<any>;
}

/** What postgresGuard() accepts: a Pool or Client of pg, or an instance of postgres.js. */
export type PostgresTarget = PgPool | PgClient | PostgresJs;

/** The argument of the user's function: the transaction of postgres.js, or the client of pg. */
export type TransactionOf<Target> = Target extends { begin: infer Begin }
  ? Begin extends (options: string, work: (sql: infer Sql) => unknown) => unknown
    ? Sql
    : never
  : Target extends PgPool
    ? Target["connect"] extends { (): Promise<infer Client>; (callback: never): void }
      ? Client
      : PgClient
    : Target;

type Work<T> = (transaction: unknown) => T | Promise<T>;

interface Hooks {
  /** Called when a step begins. */
  step(step: Step): void;
  /** Called right before COMMIT. If it throws, nothing is committed. */
  beforeCommit(): void;
}

interface Opening {
  readonly isolation: string | undefined;
  /**
   * The comparison, sent together with BEGIN. `fresh` in its row is "true" if the transaction is
   * new.
   */
  readonly statement: string;
}

export interface Connection {
  /**
   * Runs statements without parameters, outside any transaction. Resolves with the rows of the last
   * one.
   */
  run(text: string): Promise<readonly Row[]>;
  /** Runs BEGIN, the opening, the work and COMMIT, and rolls back if anything throws. */
  transaction<T>(opening: Opening, work: Work<T>, hooks: Hooks): Promise<T>;
}

export function toConnection(target: PostgresTarget): Connection {
  const parts = (target ?? {}) as Partial<PgPool & PgClient & PostgresJs>;
  if (typeof parts.begin === "function" && typeof parts.unsafe === "function")
    return fromPostgresJs(target as PostgresJs);
  if (typeof parts.connect === "function" && typeof parts.totalCount === "number")
    return fromPool(target as PgPool);
  if (typeof parts.query === "function" && typeof parts.on === "function")
    return fromClient(target as PgClient);
  throw new InvalidArgumentError(
    "postgresGuard() needs a Pool or a connected Client of pg, or an instance (`sql`) of postgres.js.",
  );
}

interface PooledClient extends PgClient {
  release(broken?: boolean): void;
}

function fromPool(pool: PgPool): Connection {
  return {
    run: (text) => withClient(pool, async (client) => readRows(await client.query(text))),
    transaction: (opening, work, hooks) =>
      withClient(pool, (client) => transactionOn(client, opening, work, hooks)),
  };
}

/** Lends a client of the pool. A client in an unknown state is closed instead of being returned. */
async function withClient<T>(pool: PgPool, use: (client: PgClient) => Promise<T>): Promise<T> {
  const client = (await pool.connect()) as PooledClient;
  let broken = false;
  // The server may close a connection between two statements, and the next statement then fails.
  // Without this listener, the error event would end the process.
  const onError = (): void => {
    broken = true;
  };
  client.on("error", onError);
  try {
    return await use(client);
  } catch (error) {
    broken ||= unusable.has(client) || (error as { severity?: string }).severity === "FATAL";
    throw error;
  } finally {
    client.removeListener("error", onError);
    client.release(broken);
  }
}

/** Connections whose rollback failed, or that were in a transaction of the user. */
const unusable = new WeakSet<PgClient>();
const busy = new WeakSet<PgClient>();

/**
 * One connection can run one transaction at a time. A nested call is rejected, because it would
 * wait for itself.
 */
function fromClient(client: PgClient): Connection {
  return {
    run: async (text) => readRows(await client.query(text)),
    transaction: async (opening, work, hooks) => {
      if (busy.has(client)) {
        throw new InvalidArgumentError(
          "A guarded transaction is running on this Client already, and one connection can do one at a time. Use a Pool.",
        );
      }
      busy.add(client);
      try {
        return await transactionOn(client, opening, work, hooks);
      } finally {
        busy.delete(client);
      }
    },
  };
}

async function transactionOn<T>(
  client: PgClient,
  { isolation, statement }: Opening,
  work: Work<T>,
  hooks: Hooks,
): Promise<T> {
  const begin = isolation === undefined ? "BEGIN" : `BEGIN ISOLATION LEVEL ${isolation}`;
  let isOurs = true;
  try {
    const [row] = readRows(await client.query(`${begin}; ${statement}`));
    if (row?.fresh !== "true") {
      isOurs = false;
      throw new InvalidArgumentError(
        "The connection was in a transaction already. Call transaction() outside of one, or use the SQL function admit() in your own.",
      );
    }
    hooks.step("work");
    const result = await work(client);
    hooks.beforeCommit();
    hooks.step("commit");
    const { command } = (await client.query("COMMIT")) as { command: string };
    // The server replies with ROLLBACK if a statement failed and the function ignored its error.
    if (command === "ROLLBACK") {
      throw new InvalidArgumentError(
        "A statement of the guarded transaction had failed, so PostgreSQL rolled all of it back. Nothing was written. " +
          "Let the function throw the error, or use a savepoint around the statement that may fail.",
      );
    }
    return result;
  } catch (error) {
    if (!isOurs) unusable.add(client);
    else await rollBack(client);
    throw error;
  }
}

async function rollBack(client: PgClient): Promise<void> {
  try {
    await client.query("ROLLBACK");
  } catch {
    // The connection is closed, and the server rolls back by itself. The caller gets the original
    // error.
    unusable.add(client);
  }
}

function fromPostgresJs(sql: PostgresJs): Connection {
  return {
    run: async (text) => readRows(await sql.unsafe(text)),
    transaction: async <T>(
      { isolation, statement }: Opening,
      work: Work<T>,
      hooks: Hooks,
    ): Promise<T> => {
      let result: { value: T } | undefined;
      const options = isolation === undefined ? "" : `isolation level ${isolation}`;
      await beginSafely(sql, options, async (transaction) => {
        await (transaction as PostgresJs).unsafe(statement);
        hooks.step("work");
        result = { value: await work(transaction) };
        hooks.beforeCommit();
        // The library commits after this function has returned.
        hooks.step("commit");
      });
      return (result as unknown as { value: T }).value;
    },
  };
}

function readRows(answer: unknown): readonly Row[] {
  const last = Array.isArray(answer) && isResult(answer.at(-1)) ? answer.at(-1) : answer;
  return Array.isArray(last) ? (last as Row[]) : (last as { rows: Row[] }).rows;
}

/**
 * Several statements return an array: of results with rows (pg), or of arrays of rows
 * (postgres.js).
 */
function isResult(value: unknown): boolean {
  return Array.isArray(value) || Array.isArray((value as { rows?: unknown } | undefined)?.rows);
}
