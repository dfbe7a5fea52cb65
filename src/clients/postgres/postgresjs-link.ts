// The link through postgres.js (`postgres`): an instance created from a URL, or one of the user.
// The library cannot drop one connection of an instance, so our own instance is replaced as a whole
// when a request is not answered. Statements are prepared: otherwise postgres.js asks the server
// for the types first and needs two round trips.

import type { Call, Listening, ListeningEvents, PgLink, Row } from "./link.ts";

/** The part of an instance (`sql`) of postgres.js that is used. */
export interface PostgresJs {
  unsafe(
    text: string,
    values?: string[],
    options?: { prepare?: boolean },
  ): PromiseLike<readonly unknown[]>;
  end(options?: { timeout?: number }): Promise<void>;
  readonly options: object;
}

/** The library itself: a function that creates instances. */
export type PostgresJsLibrary = (target: string | object, options?: object) => PostgresJs;

/** Our own connections are closed after this many seconds without a request. */
const IDLE_TIMEOUT_S = 30;
/** How many seconds requests on a replaced instance may still take. */
const REPLACED_END_S = 5;
const POOL_MAX = 10;
/** A connection that listens is the only one of its instance, and stays open. */
const LISTENS = { max: 1, idle_timeout: null, max_lifetime: null, fetch_types: false };

export function sqlFromUrl(
  library: PostgresJsLibrary,
  options: { url: string; address: string; connectMs: number; listenUrl: string | undefined },
): PgLink {
  const { url, address, listenUrl = url } = options;
  const settings = {
    max: POOL_MAX,
    // No pipelining: a request behind one that hangs would hang too.
    max_pipeline: 0,
    idle_timeout: IDLE_TIMEOUT_S,
    connect_timeout: options.connectMs / 1000,
    fetch_types: false,
    onnotice: () => undefined,
    connection: { application_name: "tenure" },
  };
  let sql = library(url, settings);
  let answers = 0;
  return {
    library: "postgres",
    address,
    // The library reports answers, but not connections.
    isReached: () => answers > 0,
    query: async (call) => {
      const used = sql;
      const before = answers;
      call.abandon = () => {
        if (used !== sql || answers !== before) return;
        sql = library(url, settings);
        void used.end({ timeout: REPLACED_END_S });
      };
      const rows = await send(used, call);
      answers += 1;
      return rows;
    },
    listen: (channel, events) =>
      listenWith(
        (hooks) => library(listenUrl, { ...settings, ...LISTENS, ...hooks }),
        channel,
        events,
      ),
    close: () => sql.end({ timeout: 1 }),
  };
}

/** The user's own instance. The listening connection is an extra one with the same settings. */
export function sqlFromUser(
  sql: PostgresJs,
  library: PostgresJsLibrary | undefined,
  listenUrl?: string,
): PgLink {
  const open = (hooks: object): PostgresJs => {
    if (library === undefined) throw new Error("The library postgres is not installed.");
    return listenUrl === undefined
      ? library({ ...sql.options, ...LISTENS, ...hooks })
      : library(listenUrl, { ...LISTENS, ...hooks });
  };
  return {
    library: "postgres",
    address: "the given instance's server",
    query: (call) => send(sql, call),
    listen:
      library === undefined ? undefined : (channel, events) => listenWith(open, channel, events),
    close: async () => undefined,
  };
}

async function send(sql: PostgresJs, call: Call): Promise<readonly Row[]> {
  // The library queues and connects by itself. failures.ts knows its errors from before the
  // sending.
  call.sent = true;
  const values = call.values as string[];
  const rows = await (values.length === 0
    ? sql.unsafe(call.text)
    : sql.unsafe(call.text, values, { prepare: true }));
  return rows as readonly Row[];
}

async function listenWith(
  open: (hooks: object) => PostgresJs,
  channel: string,
  { onNotification, onBroken }: ListeningEvents,
): Promise<Listening> {
  let isClosed = false;
  const close = (): void => {
    isClosed = true;
    void sql.end({ timeout: 0 }).catch(() => undefined);
  };
  const sql = open({
    onnotify: (_channel: string, payload: string) => onNotification(payload),
    onclose: () => {
      if (isClosed) return;
      // It would connect again by itself, but not listen.
      close();
      onBroken();
    },
  });
  try {
    await sql.unsafe(`LISTEN "${channel}"`);
  } catch (error) {
    close();
    throw error;
  }
  return { ping: async () => void (await sql.unsafe("SELECT 1")), close };
}
