// The link through node-postgres (`pg`): a pool made from a URL, or a Pool or Client that the user gave. The pool of our own
// is replaced when a request stays unanswered: its other connections are likely to be just as dead, and a renewal has no
// time to find out one by one.

import type { Call, Ear, Hearing, PgLink, Row } from "./link.ts";
import { isUnprepared, type Statement, StatementNames, unnamed } from "./statement-names.ts";

/** What is used of a `Client` of pg. */
export interface PgClient {
  query(statement: Statement): Promise<{ rows: object[] }>;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

interface PooledClient extends PgClient {
  release(error?: Error | boolean): void;
}

/** What is used of a `Pool` of pg. */
export interface PgPool {
  connect(): Promise<PooledClient>;
  readonly totalCount: number;
}

interface OwnedClient {
  connect(): Promise<unknown>;
  query(statement: { text: string }): Promise<unknown>;
  on(event: "error" | "end", listener: () => void): unknown;
  on(event: "notification", listener: (message: { payload?: string }) => void): unknown;
  end(): Promise<void>;
  unref?(): void;
}

interface OwnedPool extends PgPool {
  on(event: "error", listener: () => void): unknown;
  on(event: "connect", listener: (client: PgClient) => void): unknown;
  end(): Promise<void>;
}

interface Settings {
  readonly connectionString: string;
  readonly connectionTimeoutMillis: number;
  readonly allowExitOnIdle?: boolean;
  readonly application_name: string;
  readonly keepAlive: boolean;
}

/** The parts of the library itself that are used. */
export interface PgLibrary {
  readonly Pool: new (settings: Settings & { max: number }) => OwnedPool;
  readonly Client: new (settings: object) => OwnedClient;
}

const POOL_MAX = 10;

function settingsOf(url: string, connectLimitMs: number): Settings {
  return {
    connectionString: url,
    connectionTimeoutMillis: connectLimitMs,
    // A process with nothing else to do may exit, whatever connections idle.
    allowExitOnIdle: true,
    application_name: "tenure",
    keepAlive: true,
  };
}

/** A pool of our own. */
export function linkFromUrl(
  library: PgLibrary,
  options: { url: string; address: string; connectLimitMs: number; listenUrl: string | undefined },
): PgLink {
  const settings = settingsOf(options.url, options.connectLimitMs);
  const newPool = (): OwnedPool => {
    const made = new library.Pool({ ...settings, max: POOL_MAX });
    // Idle connections may break; the next request opens another one.
    made.on("error", () => undefined);
    // The pool stops listening before its promise tells us of the connection; what the server sends in between would be
    // thrown at the process.
    made.on("connect", (client) => {
      client.on("error", () => undefined);
      if (made === pool) isReached = true;
    });
    isReached = false;
    return made;
  };
  // Whether the pool has had a connection.
  let isReached = false;
  let pool = newPool();
  let answers = 0;
  const names = new StatementNames();
  const ear = settingsOf(options.listenUrl ?? options.url, options.connectLimitMs);
  return {
    library: "pg",
    address: options.address,
    isReached: () => isReached,
    query: async (call) => {
      const used = pool;
      const before = answers;
      const rows = await queryPool(used, call, names, () => {
        if (used !== pool || answers !== before) return;
        pool = newPool();
        void used.end();
      });
      answers += 1;
      return rows;
    },
    listen: (channel, hearing) => listenWith(new library.Client(ear), channel, hearing),
    close: () => pool.end(),
  };
}

/** The user's own pool. Its settings also open the listening connection, so that none of the pool is taken away. */
export function linkFromPool(
  pool: PgPool,
  library: PgLibrary | undefined,
  listenUrl?: string,
): PgLink {
  const { Client, options } = pool as { Client?: PgLibrary["Client"]; options?: object };
  const open = library?.Client ?? Client;
  const settings = listenUrl === undefined ? options : { connectionString: listenUrl };
  const canListen = open !== undefined && settings !== undefined;
  const names = new StatementNames();
  return {
    library: "pg",
    address: "the given pool's server",
    query: (call) => queryPool(pool, call, names, () => undefined),
    listen: canListen
      ? (channel, hearing) => listenWith(new open(settings), channel, hearing)
      : undefined,
    close: async () => undefined,
  };
}

/** One connection of the user's: requests take turns, since pg deprecates a queue inside the client. */
export function linkFromClient(
  client: PgClient,
  library: PgLibrary | undefined,
  listenUrl?: string,
): PgLink {
  let turn: Promise<unknown> = Promise.resolve();
  const canListen = library !== undefined && listenUrl !== undefined;
  return {
    library: "pg",
    address: "the given client's server",
    query: (call) => {
      let abandoned = false;
      call.abandon = () => {
        abandoned = true;
      };
      const answer = turn.then(async () => {
        if (abandoned) throw new Error("The request was given up before its turn came.");
        call.sent = true;
        return rowsOf(await client.query(unnamed(call)));
      });
      turn = answer.catch(() => undefined);
      return answer;
    },
    listen: canListen
      ? (channel, hearing) =>
          listenWith(new library.Client({ connectionString: listenUrl }), channel, hearing)
      : undefined,
    close: async () => undefined,
  };
}

async function queryPool(
  pool: PgPool,
  call: Call,
  names: StatementNames,
  unanswered: () => void,
): Promise<readonly Row[]> {
  const statement = names.statementOf(call);
  try {
    return await queryOnce(pool, call, statement, unanswered);
  } catch (error) {
    // The statement never ran, so sending it again is no repetition.
    if (statement.name === undefined || !names.areRefused(error)) throw error;
    return queryOnce(pool, call, unnamed(call), unanswered);
  }
}

async function queryOnce(
  pool: PgPool,
  call: Call,
  statement: Statement,
  unanswered: () => void,
): Promise<readonly Row[]> {
  let abandoned = false;
  call.abandon = () => {
    abandoned = true;
    unanswered();
  };
  const client = await pool.connect();
  if (abandoned) {
    client.release();
    throw new Error("The request was given up before a connection was free.");
  }
  return new Promise((resolve, reject) => {
    let isOver = false;
    const finish = (broken: boolean, settle: () => void): void => {
      if (isOver) return;
      isOver = true;
      client.removeListener("error", onError);
      client.release(broken);
      settle();
    };
    const onError = (error: Error): void => finish(true, () => reject(error));
    client.on("error", onError);
    call.abandon = () => {
      unanswered();
      finish(true, () => reject(new Error("The request was given up.")));
    };
    call.sent = true;
    client.query(statement).then(
      (result) => finish(false, () => resolve(rowsOf(result))),
      // An error that the server sent leaves the connection in order; any other does not.
      (error: { severity?: unknown }) =>
        finish(error?.severity !== "ERROR" || isUnprepared(error), () => reject(error as Error)),
    );
  });
}

function rowsOf(result: { rows: object[] } | { rows: object[] }[]): readonly Row[] {
  return Array.isArray(result) ? [] : (result.rows as Row[]);
}

async function listenWith(client: OwnedClient, channel: string, hearing: Hearing): Promise<Ear> {
  let isClosed = false;
  const broke = (): void => {
    if (isClosed) return;
    isClosed = true;
    hearing.broke();
  };
  client.on("error", broke);
  client.on("end", broke);
  client.on("notification", (message: { payload?: string }) =>
    hearing.heard(message.payload ?? ""),
  );
  const close = (): void => {
    isClosed = true;
    client.unref?.();
    void client.end().catch(() => undefined);
  };
  try {
    await client.connect();
    await client.query({ text: `LISTEN "${channel}"` });
  } catch (error) {
    close();
    throw error;
  }
  // Waiters keep the process alive, not the connection that wakes them.
  client.unref?.();
  return { close, ping: async () => void (await client.query({ text: "SELECT 1" })) };
}
