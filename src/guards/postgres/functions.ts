// The definitions of the guard in the database: the table of highest tokens, a secret, and the
// functions that compare tokens. psql, other languages and ORMs use the same functions as Tenure
// (ADR 014). {schema} is a placeholder for the schema of the guard.

import { TOKEN_LIMIT } from "../../core/token.ts";

/** The SQLSTATEs that the functions raise. Every client library reports them. */
export const STALE_STATE = "TN001";
export const NOT_ADMITTED_STATE = "TN002";

/**
 * How long a transaction that calls admit() itself may be idle. A guard uses its `idleMs`
 * instead.
 */
const IDLE_MS = 5_000;
/** How long admit() waits if neither its caller nor `lock_timeout` sets a limit. */
const WAIT_MS = 10_000;
/** How often admit() retries a row that a transaction without the gate has locked. */
const POLL_SECONDS = 0.01;

const KEEP = (name: string, when: string): string => `
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
      WHERE tgrelid = '"{schema}".highest'::regclass AND tgname = '${name}') THEN
    CREATE TRIGGER ${name} BEFORE ${when} EXECUTE FUNCTION "{schema}".keep_highest();
  END IF;`;

export const TABLES: string = `
CREATE SCHEMA IF NOT EXISTS "{schema}";

-- The highest token that was admitted or advanced to, by resource. It never falls. Only the owner of the guard can reset it.
CREATE TABLE IF NOT EXISTS "{schema}".highest (
  resource text COLLATE "C" PRIMARY KEY,
  token numeric(39) NOT NULL CHECK (token > 0 AND token < ${TOKEN_LIMIT})
) WITH (fillfactor = 50);

-- The key that signs admissions, so that no session can forge one. Only the functions below read it.
CREATE TABLE IF NOT EXISTS "{schema}".secret (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  value bytea NOT NULL CHECK (length(value) >= 32)
);
INSERT INTO "{schema}".secret (value)
SELECT pg_catalog.decode(pg_catalog.replace(pg_catalog.concat(pg_catalog.gen_random_uuid(), pg_catalog.gen_random_uuid()), '-', ''), 'hex')
ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION "{schema}".keep_highest() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.resource = OLD.resource AND NEW.token >= OLD.token THEN RETURN NEW; END IF;
  END IF;
  RAISE EXCEPTION 'The highest tokens of "{schema}" never fall and are never deleted: a former holder could write again.'
    USING ERRCODE = '55000', HINT = 'To accept the lower tokens of another store, the owner of the guard runs: tenure guard reset RESOURCE';
END $$;

DO $$ BEGIN${KEEP("keep_highest", 'UPDATE OR DELETE ON "{schema}".highest FOR EACH ROW')}${KEEP(
  "keep_highest_truncated",
  'TRUNCATE ON "{schema}".highest FOR EACH STATEMENT',
)}
END $$;
`;

const STALE = (offered: string): string => `
    RAISE EXCEPTION 'Token % for "%" is stale: % has been seen. Nothing was written.', ${offered}, p_resource, seen
      USING ERRCODE = '${STALE_STATE}', DETAIL = format('offered %s highest %s', ${offered}, seen);`;

/** 64 hexadecimal digits. The nested hash prevents length extension of a signed text. */
const SIGNATURE = (text: string): string =>
  `encode(sha256(secret || sha256(secret || convert_to(${text}, getdatabaseencoding()))), 'hex')`;

/** Whether admit() signed `admission` in this transaction, whose id is at the start of `mine`. */
const IS_OURS = (admission: string): string =>
  `starts_with(${admission}, mine) AND right(${admission}, 64) = ${SIGNATURE(`left(${admission}, -65)`)}`;

const ADMITTED = (admission: string): string =>
  `substr(left(${admission}, -65), length(mine) + 1)::jsonb`;

// Finds the backends that hold the gate. pg_stat_activity hides the state of other users' sessions
// from a role without pg_read_all_stats.
const IN_THE_WAY = `
      SELECT string_agg(one.description, ', ') INTO others FROM (
        SELECT CASE WHEN l.pid IS NULL THEN 'a prepared transaction (see pg_prepared_xacts)'
          WHEN a.state IS NULL THEN format('backend pid %s', l.pid)
          ELSE format('backend pid %s (%s for %s s)', l.pid, a.state,
            round(extract(epoch FROM clock_timestamp() - a.state_change)::numeric, 1)) END AS description
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND ((l.classid::bigint << 32) | l.objid::bigint) = gate
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
        ORDER BY a.state_change LIMIT 5) one;`;

/**
 * The advisory lock that the writers of a resource share, and that an advance or a reset takes
 * exclusively. `resource` is an SQL expression.
 */
export const GATE = (resource: string): string =>
  `hashtextextended('tenure guard {schema} ' || ${resource}, 0)`;

// Runs with its owner's rights, so that writers need no rights on the tables and cannot lower a
// highest token by hand.
export const ADMIT: string = `
-- The comparison (S2). Call it in the transaction that writes, before the first write: select {schema}.admit('settlement', 4720)
-- Until that transaction ends, no other one can raise the highest above this token. A stale token raises SQLSTATE ${STALE_STATE}.
-- It waits for p_wait_ms at most; without that, for lock_timeout; without either, for ${WAIT_MS} ms.
-- The server ends the transaction if it is idle for ${IDLE_MS} ms. To change that, set idle_in_transaction_session_timeout after the call.
CREATE OR REPLACE FUNCTION "{schema}".admit(p_resource text, p_token numeric, p_wait_ms integer DEFAULT NULL)
RETURNS numeric LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Writers share this lock, and an advance takes it exclusively. PostgreSQL grants it in the order of arrival, so an advance waits
  -- once for the writers before it, and not for later ones. Row locks have no such order.
  gate bigint := ${GATE("p_resource")};
  secret bytea;
  seen numeric;
  newest numeric;
  deadline timestamptz;
  wait_ms numeric;
  setting text;
  others text;
  mine text;
  admission text;
BEGIN
  -- The usual case in one step: the same term again. The row lock sees the newest row, also in a repeatable read, where an older
  -- snapshot fails with 40001. The CASE does not lock the gate if the token differs, because it may then be needed exclusively.
  SELECT (SELECT s.value FROM "{schema}".secret s) INTO secret FROM "{schema}".highest h WHERE h.resource = p_resource
    AND CASE WHEN h.resource = p_resource AND h.token = p_token THEN pg_try_advisory_xact_lock_shared(gate) END
    FOR SHARE SKIP LOCKED;
  IF NOT FOUND THEN
    IF p_resource IS NULL OR p_resource = '' OR octet_length(p_resource) > 512 THEN
      RAISE EXCEPTION 'Expected a resource name of 1 to 512 bytes, got %.', coalesce(quote_literal(left(p_resource, 60)), 'null')
        USING ERRCODE = '22023';
    END IF;
    IF p_token IS NULL OR p_token <= 0 OR p_token >= ${TOKEN_LIMIT} OR p_token <> trunc(p_token) THEN
      RAISE EXCEPTION 'Expected a fencing token (a whole number above 0, below 2^127), got %.', coalesce(p_token::text, 'null')
        USING ERRCODE = '22023';
    END IF;
    setting := current_setting('lock_timeout');
    wait_ms := round(coalesce(p_wait_ms, nullif(extract(epoch FROM setting::interval)::numeric * 1000, 0), ${WAIT_MS}));
    deadline := clock_timestamp() + wait_ms * interval '1 millisecond';
    BEGIN
      LOOP
        SELECT h.token INTO seen FROM "{schema}".highest h WHERE h.resource = p_resource;
        IF seen > p_token THEN ${STALE("p_token")}
        END IF;
        PERFORM set_config('lock_timeout',
          greatest(1, ceil(extract(epoch FROM deadline - clock_timestamp())::numeric * 1000))::text, true);
        IF seen = p_token THEN
          PERFORM pg_advisory_xact_lock_shared(gate);
          -- The token that was read may be outdated by now.
          PERFORM FROM "{schema}".highest h WHERE h.resource = p_resource AND h.token = p_token FOR SHARE SKIP LOCKED;
          EXIT WHEN FOUND;
        ELSE
          -- A new term: wait for every writer of the older one to commit or roll back.
          PERFORM pg_advisory_xact_lock(gate);
          SELECT h.token INTO newest FROM "{schema}".highest h WHERE h.resource = p_resource FOR NO KEY UPDATE SKIP LOCKED;
          EXIT WHEN newest = p_token;
          IF newest < p_token OR seen IS NULL THEN
            -- The WHERE clause repeats the rule.
            INSERT INTO "{schema}".highest AS h (resource, token) VALUES (p_resource, p_token)
            ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE h.token < excluded.token;
            EXIT WHEN FOUND;
          END IF;
        END IF;
        -- The row has changed, or it is locked without the gate: by hand, or by an earlier version of this function.
        IF clock_timestamp() >= deadline THEN RAISE lock_not_available; END IF;
        PERFORM pg_sleep(${POLL_SECONDS});
      END LOOP;
    EXCEPTION WHEN lock_not_available THEN${IN_THE_WAY}
      RAISE EXCEPTION 'Token % for "%" was not admitted within % ms. Nothing was written.', p_token, p_resource, wait_ms
        USING ERRCODE = 'lock_not_available',
          DETAIL = 'In the way: ' || coalesce(others, 'a transaction that has ended, or that locks the row without admit()') || '.',
          HINT = 'Transactions of an earlier term have not ended. To end one: SELECT pg_terminate_backend(pid).';
    END;
    setting := set_config('lock_timeout', setting, true);
    SELECT s.value INTO secret FROM "{schema}".secret s;
  END IF;
  -- A process that is stopped in its transaction must not block its successor. A stricter limit of the user stays.
  setting := current_setting('idle_in_transaction_session_timeout');
  IF setting = '0' OR (setting <> '${IDLE_MS / 1_000}s' AND setting::interval > interval '${IDLE_MS} milliseconds') THEN
    setting := set_config('idle_in_transaction_session_timeout', '${IDLE_MS}', true);
  END IF;
  -- For the triggers of protected tables. It includes the transaction id, so that no later transaction can use it.
  mine := pg_current_xact_id()::text || ' ';
  admission := current_setting('tenure.admitted_{schema}', true);
  IF ${IS_OURS("admission")} THEN
    admission := mine || (${ADMITTED("admission")} || jsonb_build_object(p_resource, trunc(p_token)::text))::text;
  ELSE
    -- The first admission of a transaction, and nearly always the only one. Concatenation costs half as much as jsonb.
    admission := concat(mine, '{', to_json(p_resource), ':"', trunc(p_token), '"}');
  END IF;
  setting := set_config('tenure.admitted_{schema}', concat(admission, ' ', ${SIGNATURE("admission")}), true);
  RETURN p_token;
END $$;
`;

export const PROTECT: string = `
-- The trigger of protected tables: rejects every write of a transaction that was not admitted, or whose admission was rolled back.
CREATE OR REPLACE FUNCTION "{schema}".refuse_unadmitted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  p_resource text := TG_ARGV[0];
  admission text := current_setting('tenure.admitted_{schema}', true);
  mine text := pg_current_xact_id_if_assigned()::text || ' ';
  secret bytea;
  offered numeric;
  seen numeric;
BEGIN
  SELECT s.value INTO secret FROM "{schema}".secret s;
  -- Any session may change this setting, so its signature is verified first.
  IF ${IS_OURS("admission")} THEN
    offered := (${ADMITTED("admission")} ->> p_resource)::numeric;
  END IF;
  IF offered IS NULL THEN
    RAISE EXCEPTION '%.% takes writes only from the holder of "%". Nothing was written.', TG_TABLE_SCHEMA, TG_TABLE_NAME, p_resource
      USING ERRCODE = '${NOT_ADMITTED_STATE}',
        HINT = format('Call {schema}.admit(%L, token) first, in the same transaction.', p_resource);
  END IF;
  -- After a rollback to a savepoint has released the row lock, a session could set the signed admission again.
  SELECT h.token INTO seen FROM "{schema}".highest h WHERE h.resource = p_resource FOR SHARE;
  IF seen IS DISTINCT FROM offered THEN ${STALE("offered")}
  END IF;
  RETURN NULL;
END $$;

-- Protects a table and its partitions: select {schema}.protect('public.settlement', 'settlement'). Only for the table's owner.
CREATE OR REPLACE FUNCTION "{schema}".protect(p_table regclass, p_resource text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part record;
BEGIN
  IF p_resource IS NULL OR p_resource = '' OR octet_length(p_resource) > 512 THEN
    RAISE EXCEPTION 'Expected a resource name of 1 to 512 bytes.' USING ERRCODE = '22023';
  END IF;
  -- Children of plain inheritance, too: a statement fires only the triggers of the table that it names.
  FOR part IN
    WITH RECURSIVE family AS (
      SELECT p_table::oid AS id UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.id)
    SELECT c.oid AS id, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind
    FROM family f JOIN pg_class c ON c.oid = f.id JOIN pg_namespace n ON n.oid = c.relnamespace
  LOOP
    IF part.kind NOT IN ('r', 'p') OR part.schema IN ('pg_catalog', '{schema}') THEN
      RAISE EXCEPTION '%.% is not a table that can be protected.', part.schema, part.name USING ERRCODE = '42809';
    END IF;
    IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = part.id AND t.tgname = 'tenure_guard') THEN
      RAISE EXCEPTION '%.% is protected already.', part.schema, part.name USING ERRCODE = '42710';
    END IF;
    EXECUTE format('CREATE TRIGGER tenure_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %I.%I '
      'FOR EACH STATEMENT EXECUTE FUNCTION "{schema}".refuse_unadmitted(%L)', part.schema, part.name, p_resource);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION "{schema}".unprotect(p_table regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part record;
  found_any boolean := false;
BEGIN
  FOR part IN
    WITH RECURSIVE family AS (
      SELECT p_table::oid AS id UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.id)
    SELECT n.nspname AS schema, c.relname AS name
    FROM family f JOIN pg_class c ON c.oid = f.id JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = 'tenure_guard'
  LOOP
    found_any := true;
    EXECUTE format('DROP TRIGGER tenure_guard ON %I.%I', part.schema, part.name);
  END LOOP;
  IF NOT found_any THEN
    RAISE EXCEPTION '% is not protected.', p_table USING ERRCODE = '42704';
  END IF;
END $$;
`;

export const CLOSED_TO_ALL = `
REVOKE ALL ON "{schema}".highest FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "{schema}" FROM PUBLIC;

-- Only the owner of admit() may read the secret, also after an upgrade by a superuser and with any default privileges.
DO $$
DECLARE
  owner oid := (SELECT proowner FROM pg_catalog.pg_proc WHERE oid = '"{schema}".admit(text, numeric, integer)'::regprocedure);
  reader record;
BEGIN
  IF owner <> (SELECT relowner FROM pg_catalog.pg_class WHERE oid = '"{schema}".secret'::regclass) THEN
    EXECUTE pg_catalog.format('ALTER TABLE "{schema}".secret OWNER TO %I', pg_catalog.pg_get_userbyid(owner));
  END IF;
  FOR reader IN SELECT DISTINCT a.grantee FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
    WHERE c.oid = '"{schema}".secret'::regclass AND a.grantee <> owner
  LOOP
    EXECUTE 'REVOKE ALL ON "{schema}".secret FROM ' || CASE WHEN reader.grantee = 0 THEN 'PUBLIC'
      ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(reader.grantee)) END || ' CASCADE';
  END LOOP;
END $$;
`;

/** The function that the triggers of protected tables call. */
export const PROTECTION_FUNCTION = "refuse_unadmitted";

/** The body of that function as PostgreSQL stores it. */
export const protectionSource = (schema: string): string => firstBody(PROTECT, schema);

export const admitSource = (schema: string): string => firstBody(ADMIT, schema);

/** The body of the first function in the text, between its two $$. */
function firstBody(text: string, schema: string): string {
  return text.replaceAll("{schema}", schema).split("$$")[1] ?? "";
}
