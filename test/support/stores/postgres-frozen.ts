// Two PostgreSQLs that are asked the same: the real one, with the store's schema and a clock that stands still until it is set,
// and the simulator's model of it. clock_timestamp() and pg_postmaster_start_time() are found on the search path, where ours
// come before the server's own.

import pg from "pg";
import { Database } from "../../../sim/models/postgres/database.ts";
import { runStatement, SCHEMA } from "../../../sim/models/postgres/statements.ts";
import type { Row, SqlValue } from "../../../src/clients/postgres/link.ts";
import { channelOf, migrationSql } from "../../../src/stores/postgres/schema.ts";
import type { PostgresServer } from "../../servers/postgres.ts";

/** What the two have in common. */
export interface Frozen {
  /** `{schema}` in it stands for the name. */
  ask(text: string, values: readonly SqlValue[]): Promise<readonly Row[]>;
  /** To this many microseconds since 1970. */
  setClock(micros: number): Promise<void>;
  /** As another process of the server, after a restart. */
  restart(): Promise<void>;
  /** As a person with a console does. */
  deleteLease(resource: string): Promise<void>;
  /** What was told since the last time, sorted: in one transaction the order is open. */
  told(): Promise<string[]>;
  /** All rows of all tables. */
  dump(): Promise<string[]>;
}

export function frozenModel(): Frozen {
  let now = 0;
  let notes = new Set<string>();
  const nobody = (): void => undefined;
  const db = new Database({
    witness: { granted: nobody, freed: nobody, kept: nobody },
    now: () => now,
    notify: (payload) => notes.add(payload),
    isLocked: () => false,
  });
  return {
    ask: async (text, values) => runStatement(db, text.replaceAll("{schema}", SCHEMA), values),
    setClock: async (micros) => {
      now = micros;
    },
    restart: async () => db.restart(),
    deleteLease: async (resource) => db.deleteLease(resource),
    told: async () => {
      const told = [...notes].sort();
      notes = new Set();
      return told;
    },
    dump: async () => dumpOf(db),
  };
}

function dumpOf(db: Database): string[] {
  const lines = [
    `era ${db.era.server} ${db.era.floor}`,
    ...[...db.sessions.values()].map(
      ({ id, holderId, ttlMs, expires, ended }) =>
        `session ${id} ${holderId} ${ttlMs} ${expires} ${ended ?? "-"}`,
    ),
    ...[...db.leases.values()].map(
      ({ resource, token, session, attempt, record, freed, queued, granted }) =>
        `lease ${resource} ${token} ${session ?? "-"} ${attempt} ${record} ${freed} ${queued} ${granted ?? "-"}`,
    ),
    ...db.revocations.map(
      ({ session, resource, token }) => `revocation ${session} ${resource} ${token}`,
    ),
    ...[...db.watchers].map(([id, until]) => `watcher ${id} ${until}`),
  ].sort();
  const waiters = [...db.waiters.values()].map(
    ({ resource, session, attempt }) => `waiter ${resource} ${session} ${attempt}`,
  );
  return [...lines, ...waiters];
}

const MICROS = (instant: string): string =>
  `CASE WHEN isfinite(${instant}) THEN (extract(epoch FROM ${instant}) * 1000000)::bigint::text ELSE '-Infinity' END`;
const DUMP = `
  SELECT line FROM (
    SELECT 0 AS part, 0 AS place, concat_ws(' ', 'era', server, floor) AS line FROM "{schema}".era
    UNION ALL SELECT 0, 0, concat_ws(' ', 'session', id, holder_id, ttl_ms, ${MICROS("expires")},
      CASE WHEN ended IS NULL THEN '-' ELSE ${MICROS("ended")} END) FROM "{schema}".session
    UNION ALL SELECT 0, 0, concat_ws(' ', 'lease', resource, token, coalesce(session, '-'), attempt, record,
      ${MICROS("freed")}, queued::text,
      CASE WHEN granted IS NULL THEN '-' ELSE ${MICROS("granted")} END) FROM "{schema}".lease
    UNION ALL SELECT 0, 0, concat_ws(' ', 'revocation', session, resource, token) FROM "{schema}".revocation
    UNION ALL SELECT 0, 0, concat_ws(' ', 'watcher', id, ${MICROS("until")}) FROM "{schema}".watcher
    UNION ALL SELECT 1, place, concat_ws(' ', 'waiter', resource, session, attempt) FROM "{schema}".waiter
  ) AS lines ORDER BY part, place, line COLLATE "C"`;

export async function frozenServer(
  server: PostgresServer,
  schema: string,
): Promise<Frozen & AsyncDisposable> {
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
  const ear = new pg.Client({ connectionString: server.url });
  await Promise.all([client.connect(), ear.connect()]);
  const ask = async (text: string, values: readonly SqlValue[]): Promise<readonly Row[]> =>
    (await client.query(text.replaceAll("{schema}", schema), [...values])).rows;
  const channel = channelOf(schema);
  const heard = new Heard();
  ear.on("notification", ({ payload = "" }) => heard.add(payload));
  await ear.query(`LISTEN "${channel}"`);
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
    told: async () => {
      const mark = heard.mark();
      await ask("SELECT pg_notify($1, $2)", [channel, mark]);
      return (await heard.until(mark)).sort();
    },
    dump: async () => (await ask(DUMP, [])).map(({ line }) => String(line)),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([client.end(), ear.end()]);
    },
  };
}

/** Notifications come in the order of the commits, so a mark of our own tells that all before it have come. */
class Heard {
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
    const told = this.#payloads.splice(0, this.#payloads.indexOf(mark));
    this.#payloads.shift();
    return told;
  }
}
