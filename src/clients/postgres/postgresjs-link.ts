// The link through postgres.js (`postgres`): an instance made from a URL, or one that the user gave. The library cannot drop
// one connection of an instance, so one of our own is replaced as a whole when a request stays unanswered.
// Statements are prepared: without that, postgres.js asks for the types first and needs two round trips.

import type { Call, Ear, Hearing, PgLink, Row } from "./link.ts";

/** What is used of an instance (`sql`) of postgres.js. */
export interface PostgresJs {
  unsafe(
    text: string,
    values?: string[],
    options?: { prepare?: boolean },
  ): PromiseLike<readonly unknown[]>;
  end(options?: { timeout?: number }): Promise<void>;
  readonly options: object;
}

/** The library itself: a function that makes instances. */
export type PostgresJsLibrary = (target: string | object, options?: object) => PostgresJs;

/** Connections of our own that idle this long are closed; seconds, as the library counts. */
const IDLE_TIMEOUT_S = 30;
/** How long requests on a replaced instance may still take; seconds. */
const REPLACED_END_S = 5;
const POOL_MAX = 10;

export function sqlFromUrl(
  library: PostgresJsLibrary,
  options: { url: string; address: string; connectLimitMs: number; listenUrl: string | undefined },
): PgLink {
  const settings = {
    max: POOL_MAX,
    // No pipelining: a request behind one that hangs would hang too.
    max_pipeline: 0,
    idle_timeout: IDLE_TIMEOUT_S,
    connect_timeout: options.connectLimitMs / 1000,
    fetch_types: false,
    onnotice: () => undefined,
    connection: { application_name: "tenure" },
  };
  let sql = library(options.url, settings);
  let answers = 0;
  const ear = (hooks: object): PostgresJs =>
    library(options.listenUrl ?? options.url, {
      ...settings,
      idle_timeout: null,
      max: 1,
      ...hooks,
    });
  return {
    library: "postgres",
    address: options.address,
    // The library does not tell of connections, only of answers.
    isReached: () => answers > 0,
    query: async (call) => {
      const used = sql;
      const before = answers;
      call.abandon = () => {
        if (used !== sql || answers !== before) return;
        sql = library(options.url, settings);
        void used.end({ timeout: REPLACED_END_S });
      };
      const rows = await send(used, call);
      answers += 1;
      return rows;
    },
    listen: (channel, hearing) => listenWith(ear, channel, hearing),
    close: () => sql.end({ timeout: 1 }),
  };
}

/** The user's own instance. The listening connection is a further one with the same settings. */
export function sqlFromUser(
  sql: PostgresJs,
  library: PostgresJsLibrary | undefined,
  listenUrl?: string,
): PgLink {
  const ear = (hooks: object): PostgresJs => {
    const own = { ...hooks, max: 1, idle_timeout: null, max_lifetime: null, fetch_types: false };
    if (library === undefined) throw new Error("The library postgres is not installed.");
    return listenUrl === undefined ? library({ ...sql.options, ...own }) : library(listenUrl, own);
  };
  return {
    library: "postgres",
    address: "the given instance's server",
    query: (call) => send(sql, call),
    listen:
      library === undefined ? undefined : (channel, hearing) => listenWith(ear, channel, hearing),
    close: async () => undefined,
  };
}

async function send(sql: PostgresJs, call: Call): Promise<readonly Row[]> {
  // The library queues and connects inside; failures.ts knows its errors from before the sending.
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
  hearing: Hearing,
): Promise<Ear> {
  let isClosed = false;
  const end = (): void => void sql.end({ timeout: 0 }).catch(() => undefined);
  const sql = open({
    onnotify: (_channel: string, payload: string) => hearing.heard(payload),
    onclose: () => {
      if (isClosed) return;
      isClosed = true;
      // It would connect again by itself, but not listen.
      end();
      hearing.broke();
    },
  });
  try {
    await sql.unsafe(`LISTEN "${channel}"`);
  } catch (error) {
    isClosed = true;
    end();
    throw error;
  }
  return {
    ping: async () => void (await sql.unsafe("SELECT 1")),
    close: () => {
      isClosed = true;
      end();
    },
  };
}
