// The two client libraries behind one seam: a statement by itself, and a transaction that opens with the comparison. The
// opening is one message with several statements, so that with pg a guarded transaction has as many round trips as a bare one.

import { InvalidArgumentError } from "../../core/errors.ts";
import { beginSafely } from "./after-close.ts";
import type { Step } from "./failures.ts";

type Row = Readonly<Record<string, unknown>>;

/** A connection of pg, as far as the guard needs it: a Client, or what a Pool hands out. */
export interface PgClient {
  // biome-ignore lint/suspicious/noExplicitAny: the many forms of pg's query() have no type of their own in common.
  query(...args: any[]): any;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** A Pool of pg. */
export interface PgPool {
  // biome-ignore lint/suspicious/noExplicitAny: its forms with and without a callback are overloads.
  connect(...args: any[]): any;
  readonly totalCount: number;
}

/** An instance (`sql`) of postgres.js. */
export interface PostgresJs {
  // biome-ignore lint/suspicious/noExplicitAny: its forms with and without options are overloads.
  begin(...args: any[]): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: what it returns is a promise with more to it.
  unsafe(text: string, ...args: any[]): PromiseLike<any>;
}

export type PostgresTarget = PgPool | PgClient | PostgresJs;

/** What the user's function gets: the transaction of postgres.js, or the client of pg. */
export type TransactionOf<Target> = Target extends { begin: infer Begin }
  ? Begin extends (options: string, work: (sql: infer Sql) => unknown) => unknown
    ? Sql
    : never
  : Target extends PgPool
    ? Target["connect"] extends { (): Promise<infer Client>; (callback: never): void }
      ? Client
      : PgClient
    : Target;

interface Opening {
  readonly isolation: string | undefined;
  /** The comparison. Follows the BEGIN in the same message; `fresh` in its answer is "true" in a new transaction. */
  readonly statement: string;
}

export interface Connection {
  /** One or more statements without parameters, outside of any transaction. Answers the rows of the last. */
  run(text: string): Promise<readonly Row[]>;
  /**
   * BEGIN, the opening, the work, COMMIT; a rollback when anything throws. Tells each step when it begins, and calls
   * `beforeCommit` at the last moment: when that throws, nothing is committed.
   */
  transaction<T>(
    opening: Opening,
    work: (transaction: unknown) => T | Promise<T>,
    hooks: { readonly step: (step: Step) => void; readonly beforeCommit: () => void },
  ): Promise<T>;
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
    run: (text) => borrowed(pool, (client) => runOn(client, text)),
    transaction: (opening, work, hooks) =>
      borrowed(pool, (client) => transactionOn(client, opening, work, hooks)),
  };
}

/** A connection that could not be brought back into order is closed, not given back. */
async function borrowed<T>(pool: PgPool, use: (client: PgClient) => Promise<T>): Promise<T> {
  const client = (await pool.connect()) as PooledClient;
  let broken = false;
  // The server may end a connection between two statements; the next statement tells. Without a listener the process ends.
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

/** Connections whose rollback failed, or that were in a transaction which is not ours. */
const unusable = new WeakSet<PgClient>();
const busy = new WeakSet<PgClient>();

/** One connection of the user's can do one transaction at a time, and waiting for a turn inside one would never end. */
function fromClient(client: PgClient): Connection {
  return {
    run: (text) => runOn(client, text),
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

async function runOn(client: PgClient, text: string): Promise<readonly Row[]> {
  return readRows(await client.query(text));
}

async function transactionOn<T>(
  client: PgClient,
  { isolation, statement }: Opening,
  work: (transaction: unknown) => T | Promise<T>,
  hooks: { step: (step: Step) => void; beforeCommit: () => void },
): Promise<T> {
  const begin = isolation === undefined ? "BEGIN" : `BEGIN ISOLATION LEVEL ${isolation}`;
  let isOurs = true;
  try {
    const [row] = readRows(await client.query(`${begin}; ${statement}`));
    if (row?.fresh !== "true") {
      isOurs = false;
      throw inTransactionAlready();
    }
    hooks.step("work");
    const result = await work(client);
    hooks.beforeCommit();
    hooks.step("commit");
    const { command } = (await client.query("COMMIT")) as { command: string };
    // The server answers so when a statement had failed and the function went on as if nothing had happened.
    if (command === "ROLLBACK") throw swallowed();
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
    // The connection is gone, and the server rolls back by itself. The caller gets the error that led here.
    unusable.add(client);
  }
}

function fromPostgresJs(sql: PostgresJs): Connection {
  return {
    run: async (text) => readRows(await sql.unsafe(text)),
    transaction: async <T>(
      { isolation, statement }: Opening,
      work: (transaction: unknown) => T | Promise<T>,
      hooks: { step: (step: Step) => void; beforeCommit: () => void },
    ): Promise<T> => {
      let result: { value: T } | undefined;
      const options = isolation === undefined ? "" : `isolation level ${isolation}`;
      await beginSafely(sql, options, async (transaction) => {
        await (transaction as PostgresJs).unsafe(statement);
        hooks.step("work");
        result = { value: await work(transaction) };
        hooks.beforeCommit();
        // The library commits when this function has returned.
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

/** Several statements are answered by an array: of results with rows (pg), or of arrays of rows (postgres.js). */
function isResult(value: unknown): boolean {
  return Array.isArray(value) || Array.isArray((value as { rows?: unknown } | undefined)?.rows);
}

function inTransactionAlready(): InvalidArgumentError {
  return new InvalidArgumentError(
    "The connection was in a transaction already. Call transaction() outside of one, or use the SQL function admit() in your own.",
  );
}

function swallowed(): InvalidArgumentError {
  return new InvalidArgumentError(
    "A statement of the guarded transaction had failed, so PostgreSQL rolled all of it back. Nothing was written. " +
      "Let the error out of the function, or put what may fail behind a savepoint.",
  );
}
