// Runs the same statements on two databases whose clock stands still until the test sets it: a real
// PostgreSQL with the store's schema, and the simulator's model of it. On the real server the
// search path resolves clock_timestamp() and pg_postmaster_start_time() to our versions first.

import pg from "pg";
import { Database } from "../../../sim/models/postgres/database.ts";
import { runStatement, SCHEMA } from "../../../sim/models/postgres/statements.ts";
import type { Row, SqlValue } from "../../../src/clients/postgres/link.ts";
import { migrationSql } from "../../../src/stores/postgres/schema.ts";
import type { PostgresServer } from "../../servers/postgres.ts";

/** What the real database and the model have in common. */
export interface FrozenDatabase {
  /** Runs one statement. `{schema}` in the text stands for the schema's name. */
  ask(text: string, values: readonly SqlValue[]): Promise<readonly Row[]>;
  /** Sets the clock, in microseconds since 1970. */
  setClock(micros: number): Promise<void>;
  /** Simulates a restart: later statements run in a new server process. */
  restart(): Promise<void>;
  /** Deletes the row directly, as an administrator could. */
  deleteLease(resource: string): Promise<void>;
  /**
   * The notifications since the last call, sorted, because their order within one transaction is
   * undefined.
   */
  takeNotifications(): Promise<string[]>;
  /** All rows of all tables. */
  dump(): Promise<string[]>;
}

/** Sessions and watchers of the test are opened with this channel. */
export const CHANNEL = "frozen";

export function openFrozenModel(): FrozenDatabase {
  let now = 0;
  let notes = new Set<string>();
  const ignore = (): void => undefined;
  const db = new Database({
    witness: { granted: ignore, freed: ignore, kept: ignore },
    now: () => now,
    notify: (channel, payload) => channel === CHANNEL && notes.add(payload),
    isLocked: () => false,
  });
  return {
    ask: async (text, values) => runStatement(db, text.replaceAll("{schema}", SCHEMA), values),
    setClock: async (micros) => {
      now = micros;
    },
    restart: async () => db.restart(),
    deleteLease: async (resource) => db.deleteLease(resource),
    takeNotifications: async () => {
      const taken = [...notes].sort();
      notes = new Set();
      return taken;
    },
    dump: async () => dumpTables(db),
  };
}

function dumpTables(db: Database): string[] {
  const lines = [
    `era ${db.era.server} ${db.era.floor}`,
    ...[...db.sessions.values()].map(
      ({ id, holderId, ttlMs, quietAfterMs, channel, expires, ended }) =>
        `session ${id} ${holderId} ${ttlMs} ${quietAfterMs} ${channel} ${expires} ${ended ?? "-"}`,
    ),
    ...[...db.leases.values()].map(
      ({ resource, token, session, attempt, record, queued, granted }) =>
        `lease ${resource} ${token} ${session ?? "-"} ${attempt} ${record} ${queued} ${granted ?? "-"}`,
    ),
    ...db.revocations.map(
      ({ session, resource, token }) => `revocation ${session} ${resource} ${token}`,
    ),
    ...[...db.handoffs.values()].map(
      ({ session, resource, attempt, token }) =>
        `handoff ${session} ${resource} ${attempt} ${token}`,
    ),
    ...[...db.watchers].map(([id, until]) => `watcher ${id} ${until}`),
  ].sort();
  const waiters = [...db.waiters.values()].map(
    ({ resource, session, attempt, holderId, rank, record }) =>
      `waiter ${resource} ${session} ${attempt} ${holderId} ${rank} ${record}`,
  );
  return [...lines, ...waiters];
}

const MICROS = (instant: string): string =>
  `CASE WHEN isfinite(${instant}) THEN (extract(epoch FROM ${instant}) * 1000000)::bigint::text ELSE '-Infinity' END`;
const DUMP = `
  SELECT line FROM (
    SELECT 0 AS part, 0 AS place, concat_ws(' ', 'era', server, floor) AS line FROM "{schema}".era
    UNION ALL SELECT 0, 0, concat_ws(' ', 'session', id, holder_id, ttl_ms, quiet_after_ms, channel, ${MICROS("expires")},
      CASE WHEN ended IS NULL THEN '-' ELSE ${MICROS("ended")} END) FROM "{schema}".session
    UNION ALL SELECT 0, 0, concat_ws(' ', 'lease', resource, token, coalesce(session, '-'), attempt, record,
      queued::text,
      CASE WHEN granted IS NULL THEN '-' ELSE ${MICROS("granted")} END) FROM "{schema}".lease
    UNION ALL SELECT 0, 0, concat_ws(' ', 'revocation', session, resource, token) FROM "{schema}".revocation
    UNION ALL SELECT 0, 0, concat_ws(' ', 'handoff', session, resource, attempt, token) FROM "{schema}".handoff
    UNION ALL SELECT 0, 0, concat_ws(' ', 'watcher', channel, ${MICROS("until")}) FROM "{schema}".watcher
    UNION ALL SELECT 1, place, concat_ws(' ', 'waiter', resource, session, attempt, holder_id, rank, record) FROM "{schema}".waiter
  ) AS lines ORDER BY part, place, line COLLATE "C"`;

export async function openFrozenServer(
  server: PostgresServer,
  schema: string,
): Promise<FrozenDatabase & AsyncDisposable> {
  const clock = `${schema}_clock`;
  await server.sql(migrationSql({ prefix: schema }));
  await server.sql(`
    CREATE SCHEMA ${clock};
    CREATE TABLE ${clock}.clock (micros bigint, starts bigint);
    INSERT INTO ${clock}.clock VALUES (0, 1);
    CREATE FUNCTION ${clock}.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS
      $$ SELECT timestamptz 'epoch' + starts * interval '1 us' FROM ${clock}.clock $$;
    CREATE FUNCTION ${clock}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
      $$ SELECT timestamptz 'epoch' + micros * interval '1 us' FROM ${clock}.clock $$`);
  const client = new pg.Client({
    connectionString: server.url,
    options: `-c search_path=${clock},pg_catalog`,
  });
  const listener = new pg.Client({ connectionString: server.url });
  await Promise.all([client.connect(), listener.connect()]);
  const ask = async (text: string, values: readonly SqlValue[]): Promise<readonly Row[]> =>
    (await client.query(text.replaceAll("{schema}", schema), [...values])).rows;
  // Channels are shared by the whole database. The model's channel is that of every schema.
  const channel = CHANNEL;
  const notifications = new Notifications();
  listener.on("notification", ({ payload = "" }) => notifications.add(payload));
  await listener.query(`LISTEN "${channel}"`);
  return {
    ask,
    setClock: async (micros) => {
      await client.query(`UPDATE ${clock}.clock SET micros = ${micros}`);
    },
    restart: async () => {
      await client.query(`UPDATE ${clock}.clock SET starts = starts + 1`);
    },
    deleteLease: async (resource) => {
      await ask('DELETE FROM "{schema}".lease WHERE resource = $1', [resource]);
    },
    takeNotifications: async () => {
      const mark = notifications.mark();
      await ask("SELECT pg_notify($1, $2)", [channel, mark]);
      return (await notifications.until(mark)).sort();
    },
    dump: async () => (await ask(DUMP, [])).map(({ line }) => String(line)),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([client.end(), listener.end()]);
    },
  };
}

/**
 * Collects notifications. They arrive in commit order, so once a marker that we sent arrives, every
 * earlier notification has arrived too.
 */
class Notifications {
  #payloads: string[] = [];
  #marks = 0;
  #whenMore: () => void = () => undefined;

  add(payload: string): void {
    this.#payloads.push(payload);
    this.#whenMore();
  }

  mark(): string {
    this.#marks += 1;
    return `mark ${this.#marks}`;
  }

  async until(mark: string): Promise<string[]> {
    while (!this.#payloads.includes(mark))
      await new Promise<void>((resolve) => {
        this.#whenMore = resolve;
      });
    const taken = this.#payloads.splice(0, this.#payloads.indexOf(mark));
    this.#payloads.shift();
    return taken;
  }
}
