// The tables in the database, and the text that creates them. The text is idempotent, so processes
// that start together may all run it. The row of a lease is also the token counter of its resource,
// and Tenure never deletes it. If a person deletes or truncates rows, the triggers raise the floor
// of the era above the lost tokens, so that tokens never fall (S1). Holders notice the new floor
// with their next renewal and ask which of their leases are left.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { FUNCTIONS } from "./grant.sql.ts";

export const SCHEMA_VERSION = 5;

/** A name is put into statements as it is, so it must be one that needs no quoting. */
export function checkSchema(schema: unknown): string {
  if (typeof schema === "string" && /^[a-z_][a-z0-9_]{0,62}$/.test(schema)) return schema;
  throw new InvalidArgumentError(
    `\`prefix\`, the PostgreSQL schema, must be a name of a-z, 0-9 and _ that does not begin with a digit, at most 63 long; got ${JSON.stringify(schema)}.`,
  );
}

const TABLES = `
CREATE SCHEMA IF NOT EXISTS "{schema}";

CREATE TABLE IF NOT EXISTS "{schema}".meta (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version integer NOT NULL
);

-- Where tokens are counted from (src/core/era.ts).
CREATE TABLE IF NOT EXISTS "{schema}".era (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- The server process that started it; empty before the first grant. Another process cannot know
  -- which token this one granted last.
  server text COLLATE "C" NOT NULL,
  floor numeric(39) NOT NULL
);
INSERT INTO "{schema}".era (server, floor) VALUES ('', 0) ON CONFLICT DO NOTHING;

-- A session is alive until \`expires\` by the clock of the database, and never again once it has ended.
CREATE TABLE IF NOT EXISTS "{schema}".session (
  id text COLLATE "C" PRIMARY KEY,
  holder_id text NOT NULL,
  ttl_ms bigint NOT NULL,
  -- From the last renewal on. See queue-policy.ts.
  quiet_after_ms bigint NOT NULL,
  -- The channel on which the process of the session listens. Empty if it does not.
  channel text NOT NULL,
  expires timestamptz NOT NULL,
  ended timestamptz
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS "{schema}".lease (
  resource text COLLATE "C" PRIMARY KEY,
  token numeric(39) NOT NULL,
  -- Null after a release. The lease is held while this session is alive. There is no index on it:
  -- with one, every grant and release would have to write to that index.
  session text COLLATE "C",
  -- The newest attempt that was granted. Kept after its end.
  attempt text COLLATE "C" NOT NULL,
  record text NOT NULL,
  -- Never false while an attempt waits. It may be true without one.
  queued boolean NOT NULL DEFAULT false,
  -- When the newest grant was made, for readers. Null before the first one.
  granted timestamptz
) WITH (fillfactor = 50);

-- The changes since version 4. Attempts that wait during the change are lost, and their processes
-- request them again. The functions of version 4 are dropped, because they ignore the new queue.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
      WHERE attrelid = '"{schema}".session'::regclass AND attname = 'channel') THEN
    ALTER TABLE "{schema}".session ADD COLUMN quiet_after_ms bigint NOT NULL DEFAULT 0,
      ADD COLUMN channel text NOT NULL DEFAULT '';
    ALTER TABLE "{schema}".lease DROP COLUMN IF EXISTS freed;
    ALTER TABLE "{schema}".lease ADD COLUMN IF NOT EXISTS granted timestamptz;
    DROP TABLE IF EXISTS "{schema}".waiter, "{schema}".watcher;
    DROP FUNCTION IF EXISTS "{schema}".look, "{schema}".acquire, "{schema}".tell_turn, "{schema}".release,
      "{schema}".withdraw, "{schema}".revoke, "{schema}".open_session, "{schema}".renew,
      "{schema}".end_session, "{schema}".acquire_free, "{schema}".release_held;
  END IF;
END $$;

-- The queues. The order is that of queue-policy.ts: by rank, then by arrival.
CREATE TABLE IF NOT EXISTS "{schema}".waiter (
  place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  resource text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  attempt text COLLATE "C" NOT NULL UNIQUE,
  holder_id text NOT NULL,
  rank bigint NOT NULL,
  -- The record of the lease, once it is granted.
  record text NOT NULL
);
CREATE INDEX IF NOT EXISTS waiter_by_resource ON "{schema}".waiter (resource, rank, place);
CREATE INDEX IF NOT EXISTS waiter_by_session ON "{schema}".waiter (session);

-- Leases that were granted by a handoff and not accepted yet. A row whose lease has ended means
-- nothing.
CREATE TABLE IF NOT EXISTS "{schema}".handoff (
  session text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  attempt text COLLATE "C" NOT NULL,
  token numeric(39) NOT NULL,
  PRIMARY KEY (session, resource)
) WITH (fillfactor = 50);

-- Leases that were revoked. Renewals report them until the holder acknowledges them or its session
-- ends.
CREATE TABLE IF NOT EXISTS "{schema}".revocation (
  session text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  token numeric(39) NOT NULL,
  PRIMARY KEY (session, resource, token)
);

-- The channels of processes that watch.
CREATE TABLE IF NOT EXISTS "{schema}".watcher (
  channel text COLLATE "C" PRIMARY KEY,
  until timestamptz NOT NULL
);
`;

const TRIGGERS = `
CREATE OR REPLACE FUNCTION "{schema}".raise_floor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    UPDATE "{schema}".era SET floor = greatest(floor, OLD.token) + 1;
  ELSE
    UPDATE "{schema}".era SET floor = greatest(floor, (SELECT max(lease.token) FROM "{schema}".lease)) + 1;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "{schema}".refuse_lower_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'A token never falls: % would admit writes of an earlier holder of "%".', NEW.token, OLD.resource;
END $$;

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
      WHERE tgrelid = '"{schema}".lease'::regclass AND tgname = 'lease_raises_floor') THEN
    CREATE TRIGGER lease_raises_floor AFTER DELETE ON "{schema}".lease
      FOR EACH ROW EXECUTE FUNCTION "{schema}".raise_floor();
    CREATE TRIGGER lease_raises_floor_truncated BEFORE TRUNCATE ON "{schema}".lease
      FOR EACH STATEMENT EXECUTE FUNCTION "{schema}".raise_floor();
    CREATE TRIGGER lease_token_lowered BEFORE UPDATE OF token ON "{schema}".lease
      FOR EACH ROW WHEN (NEW.token < OLD.token) EXECUTE FUNCTION "{schema}".refuse_lower_token();
  END IF;
END $$;
`;

/** Options of migrationSql(). */
export interface MigrationOptions {
  /** The schema: the `prefix` of postgresStore(). @default "tenure" */
  readonly prefix?: string | undefined;
  /** A role that gets the privileges that the store needs, and no others. @default none */
  readonly role?: string | undefined;
}

const MIGRATION_OPTIONS: OptionNames<MigrationOptions> = { prefix: true, role: true };

/**
 * The SQL that creates the schema, for use in your own migrations. Run it in one transaction, as a
 * role that may create a schema. It can be run repeatedly.
 */
export function migrationSql(options: MigrationOptions = {}): string {
  checkOptionNames("migrationSql()", options, MIGRATION_OPTIONS);
  const schema = checkSchema(options.prefix ?? "tenure");
  const parts = [
    `-- Tenure, schema version ${SCHEMA_VERSION}. Processes that start together take turns.`,
    `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('tenure schema ${schema}'));`,
    TABLES,
    TRIGGERS,
    FUNCTIONS,
    `INSERT INTO "{schema}".meta AS m (version) VALUES (${SCHEMA_VERSION})
      ON CONFLICT (only_row) DO UPDATE SET version = greatest(m.version, excluded.version);`,
    options.role === undefined ? "" : grantsTo(options.role),
  ];
  return `${parts.join("\n").replaceAll("{schema}", schema).trim()}\n`;
}

function grantsTo(role: string): string {
  if (role.includes("\0") || role === "") {
    throw new InvalidArgumentError("`role` must be the name of a role of the database.");
  }
  const name = `"${role.replaceAll('"', '""')}"`;
  return [
    `GRANT USAGE ON SCHEMA "{schema}" TO ${name};`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO ${name};`,
    `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "{schema}" TO ${name};`,
  ].join("\n");
}
