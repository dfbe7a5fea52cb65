// The granting and its kin as functions in the database: each request is one statement and so one round trip and one
// transaction, and inside it every step sees what was committed before it. "Live" always means: not ended, and the
// database's clock is before its end. Locks are taken in one order: lease, waiter, session; then nothing deadlocks.

import { HEAD_START_MS } from "../store.ts";

const LIVE = "s.ended IS NULL AND s.expires > clock_timestamp()";
const MS = (interval: string): string => `extract(epoch FROM ${interval}) * 1000`;

/** What every function that writes begins with. */
const PREPARE = `
-- No request waits for a row longer than its caller does. A grant must be on the disk before it is answered: a crash
-- does not begin a new timeline, so a lost grant would bring its token back (S1).
CREATE OR REPLACE FUNCTION "{schema}".prepare(p_limit_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('lock_timeout', p_limit_ms::text, true);
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $$;

-- The part of a token that rises when a standby is promoted: a standby may have missed the newest grants. Timeline 1
-- counts as 0. Asked of the WAL that is written now: the control file tells the old timeline until the next checkpoint.
CREATE OR REPLACE FUNCTION "{schema}".epoch() RETURNS numeric LANGUAGE sql AS $$
  SELECT (('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint - 1) * 18446744073709551616::numeric
$$;

-- Tells the waiters of the resource that it is free, and the watchers that something changed.
CREATE OR REPLACE FUNCTION "{schema}".tell(p_resource text, p_is_free boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (p_is_free AND EXISTS (SELECT FROM "{schema}".waiter w WHERE w.resource = p_resource))
    OR EXISTS (SELECT FROM "{schema}".watcher w WHERE w.until > clock_timestamp()) THEN
    PERFORM pg_notify('{channel}', 'r' || p_resource);
  END IF;
END $$;`;

const LOOK = `
-- When this attempt may ask for the resource: 0 for now, else how long to wait before looking again.
CREATE OR REPLACE FUNCTION "{schema}".look(p_resource text, p_attempt text,
  OUT wait_ms double precision, OUT last_attempt text, OUT held_record text) LANGUAGE plpgsql AS $$
DECLARE
  l "{schema}".lease;
  s "{schema}".session;
  head text;
BEGIN
  wait_ms := 0;
  SELECT * INTO l FROM "{schema}".lease WHERE resource = p_resource;
  IF NOT FOUND THEN RETURN; END IF;
  last_attempt := l.attempt;
  SELECT * INTO s FROM "{schema}".session WHERE id = l.session;
  IF FOUND AND ${LIVE} THEN
    wait_ms := greatest(${MS("s.expires - clock_timestamp()")}, 0.001);
    held_record := l.record;
    RETURN;
  END IF;
  head := "{schema}".head(p_resource);
  IF head IS NOT NULL AND head <> p_attempt THEN
    wait_ms := greatest(0, ${MS(`coalesce(s.ended, s.expires, l.freed) + interval '${HEAD_START_MS} ms' - clock_timestamp()`)});
  END IF;
END $$;

-- The waiter whose turn it is: the first one whose session lives.
CREATE OR REPLACE FUNCTION "{schema}".head(p_resource text) RETURNS text LANGUAGE sql AS $$
  SELECT w.attempt FROM "{schema}".waiter w JOIN "{schema}".session s ON s.id = w.session
  WHERE w.resource = p_resource AND ${LIVE} ORDER BY w.place LIMIT 1
$$;`;

const ACQUIRE = `
CREATE OR REPLACE FUNCTION "{schema}".acquire(p_resource text, p_session text, p_attempt text, p_record text,
  p_queue boolean, p_limit_ms bigint, OUT kind text, OUT granted text, OUT held_record text) LANGUAGE plpgsql AS $$
DECLARE
  l "{schema}".lease;
  seen record;
BEGIN
  PERFORM "{schema}".prepare(p_limit_ms);
  -- The usual case in one step: released, nobody waits. The counter goes up in the statement that names the holder (S1).
  UPDATE "{schema}".lease AS x
  SET token = greatest(x.token, (SELECT f.token FROM "{schema}".floor f), "{schema}".epoch()) + 1,
      session = p_session, attempt = p_attempt, record = p_record
  WHERE x.resource = p_resource AND x.session IS NULL AND x.attempt <> p_attempt
    AND EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${LIVE})
    AND NOT EXISTS (SELECT FROM "{schema}".waiter w WHERE w.resource = p_resource)
  RETURNING x.token::text INTO granted;
  IF FOUND THEN
    kind := 'granted';
    PERFORM "{schema}".tell(p_resource, false);
    RETURN;
  END IF;

  IF NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${LIVE}) THEN
    kind := 'gone';
    RETURN;
  END IF;
  -- A busy answer needs no lock, unless a place in the queue has to be taken.
  SELECT * INTO seen FROM "{schema}".look(p_resource, p_attempt);
  IF seen.wait_ms > 0 AND seen.last_attempt <> p_attempt
    AND (NOT p_queue OR EXISTS (SELECT FROM "{schema}".waiter w WHERE w.attempt = p_attempt)) THEN
    kind := 'busy';
    held_record := seen.held_record;
    RETURN;
  END IF;

  -- From here on under the row's lock. A row that is missing is made first: whoever deleted it has left its floor then.
  LOOP
    SELECT * INTO l FROM "{schema}".lease WHERE resource = p_resource FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO "{schema}".lease (resource, token, attempt, record, freed)
    VALUES (p_resource, 0, '', '', '-infinity') ON CONFLICT DO NOTHING;
  END LOOP;
  IF l.attempt = p_attempt THEN
    kind := CASE WHEN l.session = p_session THEN 'granted' ELSE 'ended' END;
    granted := l.token::text;
    RETURN;
  END IF;
  -- Taking from a session that is over begins with its death, judged under its own lock: its next renewal must fail (S4).
  -- A session that is not dead after this holds, even if it has expired since: a renewal may be under way.
  UPDATE "{schema}".session AS s SET ended = s.expires
  WHERE s.id = l.session AND s.ended IS NULL AND s.expires <= clock_timestamp();
  IF EXISTS (SELECT FROM "{schema}".session s WHERE s.id = l.session AND s.ended IS NULL) THEN
    kind := 'busy';
    held_record := l.record;
  ELSIF (SELECT now.wait_ms > 0 FROM "{schema}".look(p_resource, p_attempt) now) THEN
    kind := 'busy';
  END IF;
  IF kind = 'busy' THEN
    IF p_queue THEN
      INSERT INTO "{schema}".waiter (resource, session, attempt) VALUES (p_resource, p_session, p_attempt)
      ON CONFLICT (attempt) DO NOTHING;
    END IF;
    RETURN;
  END IF;
  UPDATE "{schema}".lease AS x
  SET token = greatest(x.token, (SELECT f.token FROM "{schema}".floor f), "{schema}".epoch()) + 1,
      session = p_session, attempt = p_attempt, record = p_record
  WHERE x.resource = p_resource RETURNING x.token::text INTO granted;
  DELETE FROM "{schema}".waiter WHERE attempt = p_attempt;
  kind := 'granted';
  PERFORM "{schema}".tell(p_resource, false);
END $$;`;

const GIVE_BACK = `
-- Conditional on session and token: a late release of an older term matches no row (S5).
CREATE OR REPLACE FUNCTION "{schema}".release(p_resource text, p_session text, p_token numeric, p_limit_ms bigint,
  OUT kind text) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM "{schema}".prepare(p_limit_ms);
  UPDATE "{schema}".lease SET session = NULL, freed = clock_timestamp()
  WHERE resource = p_resource AND session = p_session AND token = p_token
    AND EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${LIVE});
  kind := CASE WHEN FOUND THEN 'released' ELSE 'notHeld' END;
  IF FOUND THEN PERFORM "{schema}".tell(p_resource, true); END IF;
END $$;

CREATE OR REPLACE FUNCTION "{schema}".withdraw(p_resource text, p_session text, p_attempt text, p_limit_ms bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  was_held boolean;
BEGIN
  PERFORM "{schema}".prepare(p_limit_ms);
  UPDATE "{schema}".lease SET session = NULL, freed = clock_timestamp()
  WHERE resource = p_resource AND session = p_session AND attempt = p_attempt;
  was_held := FOUND;
  DELETE FROM "{schema}".waiter WHERE attempt = p_attempt AND session = p_session;
  IF was_held OR FOUND THEN PERFORM "{schema}".tell(p_resource, true); END IF;
END $$;

-- Ends a lease that somebody else holds. Its session is told at every renewal.
CREATE OR REPLACE FUNCTION "{schema}".revoke(p_resource text, p_token numeric, p_limit_ms bigint, OUT kind text)
LANGUAGE plpgsql AS $$
DECLARE
  holder text;
BEGIN
  PERFORM "{schema}".prepare(p_limit_ms);
  kind := 'notHeld';
  SELECT l.session INTO holder FROM "{schema}".lease l
  WHERE l.resource = p_resource AND l.token = p_token AND l.session IS NOT NULL FOR UPDATE;
  IF NOT FOUND OR NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = holder AND ${LIVE}) THEN RETURN; END IF;
  INSERT INTO "{schema}".revocation (session, resource, token) VALUES (holder, p_resource, p_token)
  ON CONFLICT DO NOTHING;
  UPDATE "{schema}".lease SET session = NULL, freed = clock_timestamp() WHERE resource = p_resource;
  kind := 'revoked';
  PERFORM "{schema}".tell(p_resource, true);
END $$;`;

const SESSIONS = `
CREATE OR REPLACE FUNCTION "{schema}".open_session(p_id text, p_holder text, p_ttl_ms bigint, p_limit_ms bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM "{schema}".prepare(p_limit_ms);
  -- Sessions that have been over for a while are forgotten, with all that hangs on them. Their leases are free already.
  DELETE FROM "{schema}".session WHERE id IN (
    SELECT s.id FROM "{schema}".session s
    WHERE coalesce(s.ended, s.expires) < clock_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED);
  IF FOUND THEN
    DELETE FROM "{schema}".waiter w WHERE NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = w.session);
    DELETE FROM "{schema}".revocation r WHERE NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = r.session);
  END IF;
  INSERT INTO "{schema}".session AS s (id, holder_id, ttl_ms, expires)
  VALUES (p_id, p_holder, p_ttl_ms, clock_timestamp() + p_ttl_ms * interval '1 ms')
  ON CONFLICT (id) DO UPDATE SET expires = excluded.expires WHERE s.ended IS NULL;
END $$;

-- One statement for all leases of a session. An expired or ended session stays so, whatever its row says later (S4).
CREATE OR REPLACE FUNCTION "{schema}".renew(p_session text, p_withdrawn json, p_limit_ms bigint,
  OUT ttl text, OUT gone text) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM "{schema}".prepare(p_limit_ms);
  PERFORM "{schema}".withdraw(w->>'resource', p_session, w->>'attempt', p_limit_ms)
  FROM json_array_elements(p_withdrawn) w ORDER BY w->>'resource' COLLATE "C";
  UPDATE "{schema}".session AS s SET expires = clock_timestamp() + s.ttl_ms * interval '1 ms'
  WHERE s.id = p_session AND ${LIVE} RETURNING s.ttl_ms::text INTO ttl;
  IF NOT FOUND THEN RETURN; END IF;
  SELECT json_agg(json_build_object('resource', r.resource, 'token', r.token::text))::text INTO gone
  FROM "{schema}".revocation r WHERE r.session = p_session;
END $$;

-- Frees all leases of the session by its own end. Everybody is told: which leases they were is written nowhere else.
CREATE OR REPLACE FUNCTION "{schema}".end_session(p_session text, p_limit_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM "{schema}".prepare(p_limit_ms);
  DELETE FROM "{schema}".waiter WHERE session = p_session;
  DELETE FROM "{schema}".revocation WHERE session = p_session;
  UPDATE "{schema}".session SET ended = clock_timestamp() WHERE id = p_session AND ended IS NULL;
  IF FOUND THEN PERFORM pg_notify('{channel}', 'a'); END IF;
END $$;`;

/** `{schema}` and `{channel}` stand for the names. */
export function functionsSql(): string {
  return [PREPARE, LOOK, ACQUIRE, GIVE_BACK, SESSIONS].join("\n");
}
