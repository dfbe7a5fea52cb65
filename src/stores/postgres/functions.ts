// The granting and its kin as functions in the database: each request is one statement and so one round trip and one
// transaction, and inside it every step sees what was committed before it. "Live" always means: not ended, and the
// database's clock is before its end. Locks are taken in one order: lease, waiter, session, revocation; then nothing deadlocks.
// Answers are one text: a word, and behind it what belongs to it.

import { ERA_GAP } from "../../core/era.ts";
import { HEAD_START_MS } from "../contract.ts";
import { batchSql } from "./batch-functions.ts";

const LIVE = "s.ended IS NULL AND s.expires > clock_timestamp()";
const MS = (interval: string): string => `extract(epoch FROM ${interval}) * 1000`;

/** What every function that writes begins with. */
const PREPARE = `
  -- No request waits for a row longer than its caller does. And what is answered is on the disk: after a crash, no lease
  -- is free that somebody believes to hold (S4).
  setting := set_config('lock_timeout', p_limit_ms::text, true);
  IF current_setting('synchronous_commit') = 'off' THEN
    setting := set_config('synchronous_commit', 'on', true);
  END IF;`;

/** The same for functions that grant: they count in the era of this server process. */
const PREPARE_GRANT = `${PREPARE}
  era_floor := "{schema}".current_floor();`;

/**
 * nextToken() of core/era.ts. The counter goes up in the statement that names the holder (S1). The floor is read once more
 * under the row's lock: the row may be new because another transaction has deleted the former one, and raised the floor,
 * since the request began.
 */
const NEXT_TOKEN = `
      CASE WHEN x.token >= era_floor THEN x.token + 1
        ELSE greatest("{schema}".current_floor(), "{schema}".clock_token()) END`;
const TAKE = `
    token = ${NEXT_TOKEN},
    session = p_session, attempt = p_attempt, record = p_record, granted = clock_timestamp()`;

const WATCHED = `EXISTS (SELECT FROM "{schema}".watcher w WHERE w.until > clock_timestamp())`;
const TELL = `setting := pg_notify('{channel}', 'r' || p_resource)::text;`;
/** The same when the resource is free: whose turn it is, so that the others need not look. */
const TELL_TURN = `setting := "{schema}".tell_turn(p_resource);`;
/** So many of the first in a queue look ahead for all: when the holder's time is over, and when the first is stuck. */
const LOOKOUTS = 2;

const MICROS = (instant: string): string => `floor(extract(epoch FROM ${instant}) * 1000000)`;

/**
 * The server process is recognised by its start. A promoted standby, a restored backup, a cluster after pg_upgrade and a
 * server after a crash all have another start than the one in the table, and each may have lost grants.
 */
const ERA = `
-- clockToken() of core/era.ts.
CREATE OR REPLACE FUNCTION "{schema}".clock_token() RETURNS numeric LANGUAGE sql AS $$
  SELECT greatest(1, ${MICROS("clock_timestamp()")})
$$;

-- startOfEra() of core/era.ts.
CREATE OR REPLACE FUNCTION "{schema}".start_of_era(last_known numeric) RETURNS numeric LANGUAGE sql AS $$
  SELECT greatest(clock, last_known + ${ERA_GAP} + floor((clock - last_known) / 2), last_known + ${ERA_GAP / 2n})
  FROM "{schema}".clock_token() AS clock
$$;

-- Where tokens of this server process start. The first call of a new process starts an era. The last known token is the
-- highest in any row. On a promoted standby it is also the time of the last commit that the standby replayed: the former
-- primary may have granted a new resource right after that, by a clock that was ahead.
CREATE OR REPLACE FUNCTION "{schema}".current_floor() RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  this_server text := ${MICROS("pg_postmaster_start_time()")};
  last_known numeric;
  found_floor numeric;
BEGIN
  SELECT e.floor INTO found_floor FROM "{schema}".era e WHERE e.server = this_server;
  IF found_floor IS NOT NULL THEN RETURN found_floor; END IF;
  last_known := greatest(0, (SELECT max(l.token) FROM "{schema}".lease l), ${MICROS("pg_last_xact_replay_timestamp()")});
  INSERT INTO "{schema}".era AS e (server, floor)
  VALUES (this_server, "{schema}".start_of_era(last_known))
  ON CONFLICT (only_row) DO UPDATE
  SET server = excluded.server, floor = "{schema}".start_of_era(greatest(e.floor, last_known))
  WHERE e.server <> excluded.server
  RETURNING e.floor INTO found_floor;
  -- Another transaction was quicker.
  IF found_floor IS NULL THEN SELECT e.floor INTO found_floor FROM "{schema}".era e; END IF;
  RETURN found_floor;
END $$;`;

const LOOK = `
-- When this attempt may ask for the resource: 0 for now, else how long to wait before looking again.
CREATE OR REPLACE FUNCTION "{schema}".look(p_resource text, p_attempt text,
  OUT wait_ms double precision, OUT last_attempt text, OUT held_record text) LANGUAGE plpgsql AS $$
DECLARE
  l "{schema}".lease;
  h "{schema}".session;
  head text;
BEGIN
  wait_ms := 0;
  SELECT * INTO l FROM "{schema}".lease WHERE resource = p_resource;
  IF NOT FOUND THEN RETURN; END IF;
  last_attempt := l.attempt;
  -- A copy of its own request came late and was granted: whoever waits for itself would wait for as long as it renews.
  IF l.attempt = p_attempt THEN RETURN; END IF;
  SELECT * INTO h FROM "{schema}".session WHERE id = l.session;
  IF FOUND AND h.ended IS NULL AND h.expires > clock_timestamp() THEN
    wait_ms := greatest(${MS("h.expires - clock_timestamp()")}, 0.001);
    held_record := l.record;
    -- Those further behind hear of it, or learn it by their renewals.
    IF ${LOOKOUTS} <= (SELECT count(*) FROM (SELECT FROM "{schema}".waiter w JOIN "{schema}".session s ON s.id = w.session
        WHERE w.resource = p_resource AND ${LIVE}
          AND w.place < (SELECT me.place FROM "{schema}".waiter me WHERE me.attempt = p_attempt)
        LIMIT ${LOOKOUTS}) ahead) THEN
      wait_ms := 'Infinity';
    END IF;
    RETURN;
  END IF;
  -- The first waiter whose session lives has a head start.
  SELECT w.attempt INTO head FROM "{schema}".waiter w JOIN "{schema}".session s ON s.id = w.session
  WHERE w.resource = p_resource AND ${LIVE} ORDER BY w.place LIMIT 1;
  IF head IS NOT NULL AND head <> p_attempt THEN
    -- A row that was never released has been free since -infinity, from which no server before release 17 subtracts.
    wait_ms := greatest(0, ${MS(`greatest(coalesce(h.ended, h.expires, l.freed), 'epoch') + interval '${HEAD_START_MS} ms' - clock_timestamp()`)});
  END IF;
END $$;`;

const ACQUIRE = `
CREATE OR REPLACE FUNCTION "{schema}".acquire(p_resource text, p_session text, p_attempt text, p_record text,
  p_queue boolean, p_limit_ms bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  setting text;
  era_floor numeric;
  granted text;
  watched boolean;
  seen record;
  l "{schema}".lease;
BEGIN${PREPARE_GRANT}
  -- The usual case in one step: released, and nobody waits.
  UPDATE "{schema}".lease AS x SET ${TAKE}
  WHERE x.resource = p_resource AND x.session IS NULL AND NOT x.queued AND x.attempt <> p_attempt
    AND EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${LIVE})
  RETURNING x.token::text, ${WATCHED} INTO granted, watched;
  IF granted IS NOT NULL THEN
    IF watched THEN ${TELL} END IF;
    RETURN 'granted ' || granted;
  END IF;

  IF NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${LIVE}) THEN
    RETURN 'gone';
  END IF;
  -- A busy answer needs no lock, unless a place in the queue has to be taken.
  SELECT * INTO seen FROM "{schema}".look(p_resource, p_attempt);
  IF seen.wait_ms > 0 AND seen.last_attempt <> p_attempt
    AND (NOT p_queue OR EXISTS (SELECT FROM "{schema}".waiter w WHERE w.attempt = p_attempt)) THEN
    RETURN concat('busy ', seen.held_record);
  END IF;

  -- From here on under the row's lock. A missing row is made first.
  LOOP
    SELECT * INTO l FROM "{schema}".lease WHERE resource = p_resource FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO "{schema}".lease (resource, token, attempt, record, freed)
    VALUES (p_resource, 0, '', '', '-infinity') ON CONFLICT DO NOTHING;
  END LOOP;
  IF l.attempt = p_attempt THEN
    RETURN CASE WHEN l.session = p_session THEN 'granted ' || l.token ELSE 'ended' END;
  END IF;
  -- Taking from a session that is over begins with its death, judged under its own lock: its next renewal must fail (S4).
  -- A session that is not dead after this holds, even if it has expired since: a renewal may be under way.
  UPDATE "{schema}".session AS s SET ended = s.expires
  WHERE s.id = l.session AND s.ended IS NULL AND s.expires <= clock_timestamp();
  SELECT * INTO seen FROM "{schema}".look(p_resource, p_attempt);
  IF seen.wait_ms > 0
    OR EXISTS (SELECT FROM "{schema}".session s WHERE s.id = l.session AND s.ended IS NULL) THEN
    IF p_queue THEN
      INSERT INTO "{schema}".waiter (resource, session, attempt) VALUES (p_resource, p_session, p_attempt)
      ON CONFLICT (attempt) DO NOTHING;
      -- In the row itself, so that the release that takes its lock next cannot overlook it.
      UPDATE "{schema}".lease SET queued = true WHERE resource = p_resource AND NOT queued;
    END IF;
    RETURN concat('busy ', seen.held_record);
  END IF;
  DELETE FROM "{schema}".waiter WHERE attempt = p_attempt;
  UPDATE "{schema}".lease AS x SET ${TAKE},
    queued = EXISTS (SELECT FROM "{schema}".waiter w WHERE w.resource = p_resource)
  WHERE x.resource = p_resource
  RETURNING x.token::text, ${WATCHED} INTO granted, watched;
  IF watched THEN ${TELL} END IF;
  RETURN 'granted ' || granted;
END $$;`;

const TURN = `
-- The first of the queue is told to ask, and those behind it to look when its head start is over: one of them is next.
CREATE OR REPLACE FUNCTION "{schema}".tell_turn(p_resource text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  turn text;
BEGIN
  SELECT json_build_array(p_resource, json_agg(first.attempt ORDER BY first.place))::text INTO turn FROM (
    SELECT w.attempt, w.place FROM "{schema}".waiter w JOIN "{schema}".session s ON s.id = w.session
    WHERE w.resource = p_resource AND ${LIVE} ORDER BY w.place LIMIT ${LOOKOUTS + 1}) first
  HAVING count(*) > 0;
  -- A notification has room for 8,000 bytes.
  IF turn IS NULL OR octet_length(turn) > 7000 THEN RETURN pg_notify('{channel}', 'r' || p_resource)::text; END IF;
  RETURN pg_notify('{channel}', 't' || turn)::text;
END $$;`;

const GIVE_BACK = `
-- Conditional on session and token: a late release of an older term matches no row (S5).
CREATE OR REPLACE FUNCTION "{schema}".release(p_resource text, p_session text, p_token numeric, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  setting text;
  heard boolean;
BEGIN${PREPARE}
  UPDATE "{schema}".lease AS x SET session = NULL, freed = clock_timestamp()
  WHERE x.resource = p_resource AND x.session = p_session AND x.token = p_token
    AND EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${LIVE})
  RETURNING x.queued OR ${WATCHED} INTO heard;
  IF heard THEN ${TELL_TURN} END IF;
  RETURN CASE WHEN heard IS NULL THEN 'notHeld' ELSE 'released' END;
END $$;

CREATE OR REPLACE FUNCTION "{schema}".withdraw(p_resource text, p_session text, p_attempt text, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  setting text;
  was_held boolean;
BEGIN${PREPARE}
  UPDATE "{schema}".lease SET session = NULL, freed = clock_timestamp()
  WHERE resource = p_resource AND session = p_session AND attempt = p_attempt;
  was_held := FOUND;
  DELETE FROM "{schema}".waiter WHERE attempt = p_attempt AND session = p_session;
  IF was_held OR FOUND THEN ${TELL_TURN} END IF;
  RETURN 'withdrawn';
END $$;

-- Ends a lease that somebody else holds. The renewals of its session report it until one of them acknowledges it.
CREATE OR REPLACE FUNCTION "{schema}".revoke(p_resource text, p_token numeric, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  setting text;
  holder text;
BEGIN${PREPARE}
  SELECT l.session INTO holder FROM "{schema}".lease l
  WHERE l.resource = p_resource AND l.token = p_token AND l.session IS NOT NULL FOR UPDATE;
  IF NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = holder AND ${LIVE}) THEN RETURN 'notHeld'; END IF;
  INSERT INTO "{schema}".revocation (session, resource, token) VALUES (holder, p_resource, p_token)
  ON CONFLICT DO NOTHING;
  UPDATE "{schema}".lease SET session = NULL, freed = clock_timestamp() WHERE resource = p_resource;
  ${TELL_TURN}
  RETURN 'revoked';
END $$;`;

const SESSIONS = `
CREATE OR REPLACE FUNCTION "{schema}".open_session(p_id text, p_holder text, p_ttl_ms bigint, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  setting text;
  era_floor numeric;
BEGIN${PREPARE_GRANT}
  -- Sessions that have been over for a while are forgotten, with all that hangs on them. Their leases are free already.
  DELETE FROM "{schema}".session WHERE id IN (
    SELECT s.id FROM "{schema}".session s
    WHERE coalesce(s.ended, s.expires) < clock_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED);
  IF FOUND THEN
    DELETE FROM "{schema}".waiter w WHERE NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = w.session);
    DELETE FROM "{schema}".revocation r WHERE NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = r.session);
    DELETE FROM "{schema}".watcher w WHERE w.until < clock_timestamp();
  END IF;
  INSERT INTO "{schema}".session AS s (id, holder_id, ttl_ms, expires)
  VALUES (p_id, p_holder, p_ttl_ms, clock_timestamp() + p_ttl_ms * interval '1 ms')
  ON CONFLICT (id) DO UPDATE SET expires = excluded.expires WHERE s.ended IS NULL;
  RETURN 'opened ' || era_floor;
END $$;

-- One statement for all leases of a session. An expired or ended session stays so, whatever its row says later (S4). The
-- answer has the floor of the era, so that the holder notices a failover, and the resources that the session waits for and
-- that are free, in case a notification was lost.
CREATE OR REPLACE FUNCTION "{schema}".renew(p_session text, p_withdrawn text, p_acknowledged text, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  setting text;
  era_floor numeric;
  ttl text;
BEGIN${PREPARE_GRANT}
  IF p_withdrawn <> '[]' THEN
    PERFORM "{schema}".withdraw(w->>'resource', p_session, w->>'attempt', p_limit_ms)
    FROM json_array_elements(p_withdrawn::json) w ORDER BY w->>'resource' COLLATE "C";
  END IF;
  UPDATE "{schema}".session AS s SET expires = clock_timestamp() + s.ttl_ms * interval '1 ms'
  WHERE s.id = p_session AND ${LIVE} RETURNING s.ttl_ms::text INTO ttl;
  IF ttl IS NULL THEN RETURN 'gone'; END IF;
  IF p_acknowledged <> '[]' THEN
    DELETE FROM "{schema}".revocation r USING json_array_elements(p_acknowledged::json) a
    WHERE r.session = p_session AND r.resource = a->>'resource' AND r.token = (a->>'token')::numeric;
  END IF;
  RETURN (SELECT json_build_object('ttlMs', ttl, 'floor', era_floor::text, 'gone',
      coalesce(json_agg(json_build_object('resource', r.resource, 'token', r.token::text)), '[]'), 'free',
      (SELECT coalesce(json_agg(w.resource), '[]') FROM "{schema}".waiter w JOIN "{schema}".lease l ON l.resource = w.resource
        WHERE w.session = p_session
          AND NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = l.session AND ${LIVE})))
    FROM "{schema}".revocation r WHERE r.session = p_session);
END $$;

-- Frees all leases of the session by its own end. Its process knows which they may have been; the waiters of those are told,
-- and of those that it waited for itself.
CREATE OR REPLACE FUNCTION "{schema}".end_session(p_session text, p_held text, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  setting text;
  waited text[];
BEGIN${PREPARE}
  WITH mine AS (DELETE FROM "{schema}".waiter w WHERE w.session = p_session RETURNING w.resource)
  SELECT array_agg(mine.resource) INTO waited FROM mine;
  UPDATE "{schema}".session SET ended = clock_timestamp() WHERE id = p_session AND ended IS NULL;
  DELETE FROM "{schema}".revocation WHERE session = p_session;
  PERFORM "{schema}".tell_turn(told.resource)
  FROM (SELECT json_array_elements_text(p_held::json) UNION SELECT unnest(waited)) AS told (resource);
  RETURN 'ended';
END $$;`;

/** `{schema}` and `{channel}` stand for the names. */
export function functionsSql(): string {
  const fragments = {
    prepare: PREPARE,
    prepareGrant: PREPARE_GRANT,
    live: LIVE,
    watched: WATCHED,
    nextToken: NEXT_TOKEN,
  };
  return [ERA, LOOK, ACQUIRE, TURN, GIVE_BACK, SESSIONS, batchSql(fragments)].join("\n");
}
