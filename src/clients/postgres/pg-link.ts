// The link through node-postgres (`pg`): a pool created from a URL, or a Pool or Client of the
// user. Our own pool is replaced when a request is not answered: its other connections are probably
// dead too, and a renewal has no time to find that out one by one.

import type { Call, Listening, ListeningEvents, PgLink, Row } from "./link.ts";

/** The argument of pg's query(). */
interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values?: string[];
}

/** The part of a `Client` of pg that is used. */
export interface PgClient {
  query(statement: Statement): Promise<{ rows: object[] }>;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

interface PooledClient extends PgClient {
  release(error?: Error | boolean): void;
}

/** The part of a `Pool` of pg that is used. */
export interface PgPool {
  connect(): Promise<PooledClient>;
  readonly totalCount: number;
}

interface OwnedClient {
  connect(): Promise<unknown>;
  query(statement: { text: string }): Promise<unknown>;
  on(event: "error" | "end", listener: () => void): unknown;
  on(
    event: "notification",
    listener: (message: { readonly channel: string; readonly payload?: string }) => void,
  ): unknown;
  end(): Promise<void>;
  unref?(): void;
}

interface OwnedPool extends PgPool {
  on(event: "error", listener: () => void): unknown;
  on(event: "connect", listener: (client: PgClient) => void): unknown;
  end(): Promise<void>;
}

/** The part of the library that is used. */
export interface PgLibrary {
  readonly Pool: new (settings: {
    readonly max: number;
    readonly connectionTimeoutMillis: number;
  }) => OwnedPool;
  readonly Client: new (settings: object) => OwnedClient;
}

const POOL_MAX = 10;

/** The settings of our own connections. */
function toSettings(url: string, connectMs: number) {
  return {
    connectionString: url,
    connectionTimeoutMillis: connectMs,
    // Idle connections do not keep the process alive.
    allowExitOnIdle: true,
    application_name: "tenure",
    keepAlive: true,
    max: POOL_MAX,
  };
}

/** A pool of our own. */
export function linkFromUrl(
  library: PgLibrary,
  options: { url: string; address: string; connectMs: number; listenUrl: string | undefined },
): PgLink {
  const { url, address, connectMs, listenUrl = url } = options;
  const openPool = (): OwnedPool => {
    const opened = new library.Pool(toSettings(url, connectMs));
    // Idle connections may break. The next request opens another one.
    opened.on("error", () => undefined);
    // The pool removes its own listener before its promise passes the connection on. An error in
    // between would be thrown at the process.
    opened.on("connect", (client) => {
      client.on("error", () => undefined);
      if (opened === pool) isReached = true;
    });
    isReached = false;
    return opened;
  };
  let isReached = false;
  let pool = openPool();
  let answers = 0;
  const names = new StatementNames();
  return {
    library: "pg",
    address,
    isReached: () => isReached,
    query: async (call) => {
      const used = pool;
      const before = answers;
      const rows = await queryPool(used, call, names, () => {
        if (used !== pool || answers !== before) return;
        pool = openPool();
        void used.end();
      });
      answers += 1;
      return rows;
    },
    listen: (channel, events) =>
      listenWith(new library.Client(toSettings(listenUrl, connectMs)), channel, events),
    close: () => pool.end(),
  };
}

/** The user's own pool. Its settings also open the listening connection, which is an extra one. */
export function linkFromPool(
  pool: PgPool,
  library: PgLibrary | undefined,
  listenUrl?: string,
): PgLink {
  const { Client, options } = pool as { Client?: PgLibrary["Client"]; options?: object };
  const open = library?.Client ?? Client;
  const settings = listenUrl === undefined ? options : { connectionString: listenUrl };
  const names = new StatementNames();
  return {
    library: "pg",
    address: "the given pool's server",
    query: (call) => queryPool(pool, call, names, () => undefined),
    listen:
      open === undefined || settings === undefined
        ? undefined
        : (channel, events) => listenWith(new open(settings), channel, events),
    close: async () => undefined,
  };
}

/** The user's own connection. Requests take turns, because pg deprecates a queue in the client. */
export function linkFromClient(
  client: PgClient,
  library: PgLibrary | undefined,
  listenUrl?: string,
): PgLink {
  let turn: Promise<unknown> = Promise.resolve();
  const connectionString = listenUrl;
  return {
    library: "pg",
    address: "the given client's server",
    query: (call) => {
      let isAbandoned = false;
      call.abandon = () => {
        isAbandoned = true;
      };
      const answer = turn.then(async () => {
        if (isAbandoned) throw new Error("The request was abandoned before its turn.");
        call.sent = true;
        return toRows(await client.query(toUnnamed(call)));
      });
      turn = answer.catch(() => undefined);
      return answer;
    },
    listen:
      library === undefined || connectionString === undefined
        ? undefined
        : (channel, events) =>
            listenWith(new library.Client({ connectionString }), channel, events),
    close: async () => undefined,
  };
}

async function queryPool(
  pool: PgPool,
  call: Call,
  names: StatementNames,
  onUnanswered: () => void,
): Promise<readonly Row[]> {
  const statement = names.toStatement(call);
  try {
    return await queryOnce(pool, call, statement, onUnanswered);
  } catch (error) {
    // The statement was not executed, so it can be sent again.
    if (statement.name === undefined || !isUnprepared(error)) throw error;
    names.areUsed = false;
    return queryOnce(pool, call, toUnnamed(call), onUnanswered);
  }
}

async function queryOnce(
  pool: PgPool,
  call: Call,
  statement: Statement,
  onUnanswered: () => void,
): Promise<readonly Row[]> {
  let isAbandoned = false;
  call.abandon = () => {
    isAbandoned = true;
    onUnanswered();
  };
  const client = await pool.connect();
  if (isAbandoned) {
    client.release();
    throw new Error("The request was abandoned before a connection was free.");
  }
  return new Promise((resolve, reject) => {
    let isOver = false;
    const finish = (isBroken: boolean, settle: () => void): void => {
      if (isOver) return;
      isOver = true;
      client.removeListener("error", onError);
      client.release(isBroken);
      settle();
    };
    const onError = (error: Error): void => finish(true, () => reject(error));
    client.on("error", onError);
    call.abandon = () => {
      onUnanswered();
      onError(new Error("The request was abandoned."));
    };
    call.sent = true;
    client.query(statement).then(
      (result) => finish(false, () => resolve(toRows(result))),
      // After an error that the server sent, the connection can be used again.
      (error: { severity?: unknown }) =>
        finish(error?.severity !== "ERROR" || isUnprepared(error), () => reject(error as Error)),
    );
  });
}

function toRows(result: { rows: object[] } | { rows: object[] }[]): readonly Row[] {
  return Array.isArray(result) ? [] : (result.rows as Row[]);
}

async function listenWith(
  client: OwnedClient,
  channel: string,
  { onNotification, onBroken }: ListeningEvents,
): Promise<Listening> {
  let isClosed = false;
  const breakOnce = (): void => {
    if (!isClosed) onBroken();
    isClosed = true;
  };
  client.on("error", breakOnce);
  client.on("end", breakOnce);
  client.on("notification", (message) => {
    // A pooler passes notifications for one client to the client that uses its connection next.
    if (message.channel === channel) onNotification(message.payload ?? "");
  });
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
  // Waiters keep the process alive; the connection that wakes them does not.
  client.unref?.();
  return { close, ping: async () => void (await client.query({ text: "SELECT 1" })) };
}

/**
 * Names under which each connection of the server keeps parsed statements: parsing costs more than
 * most requests. A pooler in transaction mode may change the server behind a connection, which then
 * does not know the name, or has it already. After the first such error, statements have no names.
 */
class StatementNames {
  readonly #names = new Map<string, string>();
  areUsed = true;

  toStatement(call: Call): Statement {
    const { text } = call;
    if (!this.areUsed || call.values.length === 0) return toUnnamed(call);
    let name = this.#names.get(text);
    if (name === undefined) {
      name = `tenure_${hash(text)}`;
      this.#names.set(text, name);
    }
    return { name, text, values: call.values as string[] };
  }
}

/** Without values pg uses the simple protocol, which accepts several statements at once. */
function toUnnamed({ text, values }: Call): Statement {
  return values.length === 0 ? { text } : { text, values: values as string[] };
}

/** The server does not know the name, has it already, or does not support names. */
function isUnprepared(error: unknown): boolean {
  return ["26000", "42P05", "08P01"].includes(String((error as { code?: unknown })?.code));
}

/** Different statements must not share a name, not even those of two stores on one pool. */
function hash(text: string): string {
  let [one, two] = [5381, 52711];
  for (let at = 0; at < text.length; at += 1) {
    one = (Math.imul(one, 33) ^ text.charCodeAt(at)) >>> 0;
    two = (Math.imul(two, 33) ^ text.charCodeAt(at)) >>> 0;
  }
  return one.toString(36) + two.toString(36);
}
