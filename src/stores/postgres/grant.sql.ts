// Decides which session holds a lease, by the rule of queue-policy.ts, inside the database. Each
// request of the contract is one call, and so one round trip and one transaction.
// sim/models/postgres/functions.ts has the same functions in TypeScript.
//
// A session is alive while it has not ended and the clock of the database is before its end. Every
// decision about a resource is made under the lock of its lease row, and the queue of a resource
// changes only under that lock. Functions take locks in one order, so that they cannot deadlock:
// leases (several of them by name), waiters, sessions, revocations. A function that must lock a
// lease later than that does not wait for it (`try_lock`).

import { EXPIRY_WATCHERS } from "../queue-policy.ts";
import { TOKENS } from "./tokens.sql.ts";

const IS_ALIVE = "s.ended IS NULL AND s.expires > clock_timestamp()";
const IS_QUIET = "s.expires - (s.ttl_ms - s.quiet_after_ms) * interval '1 ms' <= clock_timestamp()";

/** Every function that is a request begins with this. */
const PREPARE = `
  -- The server waits for a row no longer than the caller does. An answer is on disk, so that a
  -- crash does not free a lease whose holder continues (S4).
  PERFORM set_config('lock_timeout', p_limit_ms::text, true);
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;`;

/** Wakes the processes that watch. Without a watcher nothing is sent, which is cheaper. */
const NOTIFY_WATCHERS = `
  PERFORM pg_notify(w.channel, 'changed') FROM "{schema}".watcher w WHERE w.until > clock_timestamp();`;

const LOCKS = `
-- Locks the lease row of a resource. Creates it if it is missing.
CREATE OR REPLACE FUNCTION "{schema}".lock_lease(p_resource text) RETURNS "{schema}".lease LANGUAGE plpgsql AS $$
DECLARE
  l "{schema}".lease;
BEGIN
  LOOP
    SELECT * INTO l FROM "{schema}".lease WHERE resource = p_resource FOR UPDATE;
    IF FOUND THEN RETURN l; END IF;
    INSERT INTO "{schema}".lease (resource, token, attempt, record, queued)
    VALUES (p_resource, 0, '', '',
      EXISTS (SELECT FROM "{schema}".waiter w WHERE w.resource = p_resource))
    ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- Locks the lease row of a resource if no other transaction has locked it. True also if there is no
-- such row.
CREATE OR REPLACE FUNCTION "{schema}".try_lock(p_resource text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM "{schema}".lease WHERE resource = p_resource FOR UPDATE SKIP LOCKED;
  RETURN FOUND OR NOT EXISTS (SELECT FROM "{schema}".lease WHERE resource = p_resource);
END $$;

-- Notifies the process of a session, in the format of shared/facts.ts. A notification can have 8,000
-- bytes. A longer fact is left to the next renewal.
CREATE OR REPLACE FUNCTION "{schema}".notify_session(p_session text, p_fact json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify(s.channel, p_fact::text) FROM "{schema}".session s
  WHERE s.id = p_session AND s.channel <> '' AND octet_length(p_fact::text) < 8000;
END $$;`;

const HAND_OFF = `
-- Writes the new holder and its token.
CREATE OR REPLACE FUNCTION "{schema}".write_grant(p_resource text, p_session text, p_attempt text, p_record text)
RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  new_token numeric;
BEGIN
  UPDATE "{schema}".lease AS x
  SET token = "{schema}".next_token(x.token), session = p_session, attempt = p_attempt,
    record = p_record, granted = clock_timestamp(),
    queued = EXISTS (SELECT FROM "{schema}".waiter w WHERE w.resource = p_resource)
  WHERE x.resource = p_resource
  RETURNING x.token INTO new_token;${NOTIFY_WATCHERS}
  RETURN new_token;
END $$;

-- Whether the session holds its leases. If it has expired it is ended here, under its own lock,
-- before another session gets one of them: its next renewal must fail (S4). A session that is not
-- ended after this holds, even if it has expired since: its renewal may be in progress.
CREATE OR REPLACE FUNCTION "{schema}".still_holds(p_session text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE "{schema}".session AS s SET ended = s.expires
  WHERE s.id = p_session AND s.ended IS NULL AND s.expires <= clock_timestamp();
  RETURN EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND s.ended IS NULL);
END $$;

-- If the resource is free, grants it to the next waiter: the rule of queue-policy.ts. The caller has
-- locked the lease row. p_requester: the session that sends the request, which is never quiet.
-- p_attempt: the attempt whose grant the answer to the request reports; every other session is
-- notified, and renewals report the grant until it is accepted. Returns the token if the resource
-- was granted to p_attempt.
CREATE OR REPLACE FUNCTION "{schema}".hand_off(p_resource text, p_requester text, p_attempt text, p_preferred text)
RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  holder text := (SELECT l.session FROM "{schema}".lease l WHERE l.resource = p_resource);
  next "{schema}".waiter;
  new_token numeric;
BEGIN
  IF holder IS NOT NULL AND "{schema}".still_holds(holder) THEN RETURN NULL; END IF;
  LOOP
    SELECT w.* INTO next FROM "{schema}".waiter w JOIN "{schema}".session s ON s.id = w.session
    WHERE w.resource = p_resource AND (p_preferred IS NULL OR w.holder_id = p_preferred)
      AND ${IS_ALIVE} AND (s.id = p_requester OR NOT ${IS_QUIET})
    ORDER BY w.rank, w.place LIMIT 1;
    EXIT WHEN FOUND OR p_preferred IS NULL;
    p_preferred := NULL;
  END LOOP;
  IF next.attempt IS NULL THEN
    UPDATE "{schema}".lease SET queued = false WHERE resource = p_resource AND queued
      AND NOT EXISTS (SELECT FROM "{schema}".waiter w WHERE w.resource = p_resource);
    RETURN NULL;
  END IF;
  DELETE FROM "{schema}".waiter WHERE attempt = next.attempt;
  new_token := "{schema}".write_grant(p_resource, next.session, next.attempt, next.record);
  IF next.attempt = p_attempt THEN RETURN new_token; END IF;
  INSERT INTO "{schema}".handoff (session, resource, attempt, token)
  VALUES (next.session, p_resource, next.attempt, new_token)
  ON CONFLICT (session, resource) DO UPDATE SET attempt = excluded.attempt, token = excluded.token;
  PERFORM "{schema}".notify_session(next.session,
    json_build_array('granted', next.session, p_resource, new_token::text, next.attempt));
  IF EXISTS (SELECT FROM "{schema}".waiter w WHERE w.resource = p_resource) THEN
    PERFORM "{schema}".notify_session(next.session,
      json_build_array('wanted', next.session, p_resource, new_token::text));
  END IF;
  RETURN NULL;
END $$;

-- In how many milliseconds the session has to check the holder of a resource that it waits for.
-- Null: it need not, because enough sessions before it do, or because it does not wait.
CREATE OR REPLACE FUNCTION "{schema}".check_in(p_resource text, p_session text)
RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
  own "{schema}".waiter;
BEGIN
  SELECT * INTO own FROM "{schema}".waiter w
  WHERE w.resource = p_resource AND w.session = p_session ORDER BY w.rank, w.place LIMIT 1;
  IF own.attempt IS NULL OR ${EXPIRY_WATCHERS} <= (SELECT count(*) FROM (
      SELECT DISTINCT s.id FROM "{schema}".waiter w JOIN "{schema}".session s ON s.id = w.session
      WHERE w.resource = p_resource AND (w.rank, w.place) < (own.rank, own.place)
        AND ${IS_ALIVE} AND NOT ${IS_QUIET} LIMIT ${EXPIRY_WATCHERS}) AS before) THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT extract(epoch FROM s.expires - clock_timestamp()) * 1000
    FROM "{schema}".lease l JOIN "{schema}".session s ON s.id = l.session
    WHERE l.resource = p_resource);
END $$;`;

const STEPS = `
-- Grants a resource, or queues the attempt.
CREATE OR REPLACE FUNCTION "{schema}".acquire(p_resource text, p_session text, p_attempt text, p_holder text,
  p_record text, p_rank bigint, p_queue boolean) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  l "{schema}".lease;
  new_token numeric;
  held_by text;
BEGIN
  IF NOT p_queue THEN
    -- A busy answer to an attempt that does not wait needs no lock, and so no write.
    SELECT l2.record INTO held_by FROM "{schema}".lease l2 JOIN "{schema}".session s ON s.id = l2.session
    WHERE l2.resource = p_resource AND l2.attempt <> p_attempt AND ${IS_ALIVE}
      AND EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${IS_ALIVE});
    IF FOUND THEN RETURN json_build_array('busy', held_by); END IF;
  END IF;
  SELECT * INTO l FROM "{schema}".lease WHERE resource = p_resource FOR UPDATE;
  IF NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${IS_ALIVE}) THEN
    RETURN json_build_array('gone');
  END IF;
  IF l.resource IS NULL THEN l := "{schema}".lock_lease(p_resource); END IF;
  -- A repeated request: its first copy was granted. This answer reports the grant.
  IF l.attempt = p_attempt AND l.session = p_session THEN
    DELETE FROM "{schema}".handoff h
    WHERE h.session = p_session AND h.resource = p_resource AND h.token = l.token;
    RETURN json_build_array('granted', l.token::text);
  END IF;
  IF l.attempt = p_attempt THEN RETURN json_build_array('ended'); END IF;
  -- Free and without a queue: the attempt would be the only waiter.
  IF l.session IS NULL AND NOT l.queued THEN
    new_token := "{schema}".write_grant(p_resource, p_session, p_attempt, p_record);
    RETURN json_build_array('granted', new_token::text);
  END IF;
  INSERT INTO "{schema}".waiter (resource, session, attempt, holder_id, rank, record)
  VALUES (p_resource, p_session, p_attempt, p_holder, p_rank, p_record)
  ON CONFLICT (attempt) DO NOTHING;
  -- With this lock, the end of the holder's session either finds this waiter or is noticed here.
  PERFORM FROM "{schema}".session WHERE id = l.session FOR SHARE;
  new_token := "{schema}".hand_off(p_resource, p_session, p_attempt, NULL);
  IF new_token IS NOT NULL THEN RETURN json_build_array('granted', new_token::text); END IF;
  SELECT l2.record INTO held_by FROM "{schema}".lease l2 JOIN "{schema}".session s ON s.id = l2.session
  WHERE l2.resource = p_resource AND s.ended IS NULL;
  IF NOT p_queue THEN
    DELETE FROM "{schema}".waiter WHERE attempt = p_attempt;
    RETURN json_build_array('busy', held_by);
  END IF;
  -- In the row itself, so that the next release cannot overlook it. The holder is notified of the
  -- first waiter only.
  UPDATE "{schema}".lease SET queued = true WHERE resource = p_resource AND NOT queued RETURNING * INTO l;
  IF FOUND AND held_by IS NOT NULL THEN
    PERFORM "{schema}".notify_session(l.session,
      json_build_array('wanted', l.session, p_resource, l.token::text));
  END IF;
  RETURN json_build_array('queued', held_by, "{schema}".check_in(p_resource, p_session));
END $$;

-- Conditional on session and token: a late release of an older term matches no row (S5).
CREATE OR REPLACE FUNCTION "{schema}".release(p_resource text, p_session text, p_token numeric, p_preferred text)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  was_queued boolean;
BEGIN
  UPDATE "{schema}".lease AS x SET session = NULL
  WHERE x.resource = p_resource AND x.session = p_session AND x.token = p_token
    AND EXISTS (SELECT FROM "{schema}".session s WHERE s.id = p_session AND ${IS_ALIVE})
  RETURNING x.queued INTO was_queued;
  IF NOT FOUND THEN RETURN json_build_array('notHeld'); END IF;
  IF was_queued THEN PERFORM "{schema}".hand_off(p_resource, NULL, NULL, p_preferred); END IF;${NOTIFY_WATCHERS}
  RETURN json_build_array('released');
END $$;

-- Several releases and requests for a grant, in one transaction. Requests for the same resource are
-- handled in their order. p_waits: wait for locked rows, for requests that all concern one resource.
-- Otherwise the answer to a request whose row is locked is null, and it must be sent again.
CREATE OR REPLACE FUNCTION "{schema}".step(p_requests text, p_waits boolean, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r record;
  answers json[];
BEGIN${PREPARE}
  FOR r IN SELECT * FROM ROWS FROM (json_to_recordset(p_requests::json) AS (kind text, resource text,
      session text, token numeric, preferred text, attempt text, holder text, record text,
      rank bigint, queue boolean)) WITH ORDINALITY AS each(kind, resource, session, token, preferred,
      attempt, holder, record, rank, queue, place)
    ORDER BY resource COLLATE "C", place
  LOOP
    answers[r.place] := CASE
      WHEN NOT p_waits AND NOT "{schema}".try_lock(r.resource) THEN NULL
      WHEN r.kind = 'release' THEN "{schema}".release(r.resource, r.session, r.token, r.preferred)
      ELSE "{schema}".acquire(r.resource, r.session, r.attempt, r.holder, r.record, r.rank, r.queue)
    END;
  END LOOP;
  RETURN array_to_json(answers)::text;
END $$;

CREATE OR REPLACE FUNCTION "{schema}".withdraw(p_resource text, p_session text, p_attempt text, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  l "{schema}".lease;
BEGIN${PREPARE}
  SELECT * INTO l FROM "{schema}".lease WHERE resource = p_resource FOR UPDATE;
  DELETE FROM "{schema}".waiter WHERE attempt = p_attempt AND session = p_session;
  IF l.session = p_session AND l.attempt = p_attempt THEN
    UPDATE "{schema}".lease SET session = NULL WHERE resource = p_resource;
    PERFORM "{schema}".hand_off(p_resource, NULL, NULL, NULL);${NOTIFY_WATCHERS}
  END IF;
  RETURN 'withdrawn';
END $$;

-- Ends a lease of another holder. Renewals of its session report that until one acknowledges it.
CREATE OR REPLACE FUNCTION "{schema}".revoke(p_resource text, p_token numeric, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  holder text;
BEGIN${PREPARE}
  SELECT l.session INTO holder FROM "{schema}".lease l
  WHERE l.resource = p_resource AND l.token = p_token FOR UPDATE;
  IF NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = holder AND ${IS_ALIVE}) THEN
    RETURN 'notHeld';
  END IF;
  UPDATE "{schema}".lease SET session = NULL WHERE resource = p_resource;
  PERFORM "{schema}".hand_off(p_resource, NULL, NULL, NULL);${NOTIFY_WATCHERS}
  INSERT INTO "{schema}".revocation (session, resource, token) VALUES (holder, p_resource, p_token)
  ON CONFLICT DO NOTHING;
  PERFORM "{schema}".notify_session(holder, json_build_array('lost', holder, p_resource, p_token::text));
  RETURN 'revoked';
END $$;

-- Hands the resource off if its holder has expired. Answers when to check again, as check_in does.
CREATE OR REPLACE FUNCTION "{schema}".check_expiry(p_resource text, p_session text, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN${PREPARE}
  PERFORM "{schema}".lock_lease(p_resource);
  PERFORM "{schema}".hand_off(p_resource, p_session, NULL, NULL);
  RETURN coalesce("{schema}".check_in(p_resource, p_session)::text, '');
END $$;`;

/** The planner must not read the whole table of leases to find the few that have a queue. */
const BY_KEYS = "SET enable_hashjoin = off SET enable_mergejoin = off";

const SESSIONS = `
CREATE OR REPLACE FUNCTION "{schema}".open_session(p_session text, p_holder text, p_ttl_ms bigint,
  p_quiet_after_ms bigint, p_channel text, p_limit_ms bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN${PREPARE}
  -- Sessions that ended a while ago are deleted. Their leases are free already.
  DELETE FROM "{schema}".session WHERE id IN (
    SELECT s.id FROM "{schema}".session s
    WHERE coalesce(s.ended, s.expires) < clock_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED);
  IF FOUND THEN
    DELETE FROM "{schema}".waiter w WHERE NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = w.session);
    DELETE FROM "{schema}".handoff h WHERE NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = h.session);
    DELETE FROM "{schema}".revocation r WHERE NOT EXISTS (SELECT FROM "{schema}".session s WHERE s.id = r.session);
    DELETE FROM "{schema}".watcher w WHERE w.until < clock_timestamp();
  END IF;
  INSERT INTO "{schema}".session AS s (id, holder_id, ttl_ms, quiet_after_ms, channel, expires)
  VALUES (p_session, p_holder, p_ttl_ms, p_quiet_after_ms, p_channel,
    clock_timestamp() + p_ttl_ms * interval '1 ms')
  -- A repeated request does not revive a session that has ended.
  ON CONFLICT (id) DO UPDATE SET expires = excluded.expires WHERE s.ended IS NULL;
  RETURN "{schema}".current_floor()::text;
END $$;

-- Extends the session, whose leases live as long as it does. An expired or ended session stays so,
-- whatever the clock says later (S4).
CREATE OR REPLACE FUNCTION "{schema}".renew(p_session text, p_withdrawn text, p_acknowledged text,
  p_accepted text, p_limit_ms bigint) RETURNS text LANGUAGE plpgsql ${BY_KEYS} AS $$
DECLARE
  free_resource text;
  new_ttl_ms bigint;
BEGIN${PREPARE}
  IF p_withdrawn <> '[]' THEN
    PERFORM FROM "{schema}".lease l WHERE l.resource IN (
      SELECT w->>'resource' FROM json_array_elements(p_withdrawn::json) w)
    ORDER BY l.resource FOR UPDATE;
    PERFORM "{schema}".withdraw(w->>'resource', p_session, w->>'attempt', p_limit_ms)
    FROM json_array_elements(p_withdrawn::json) w;
  END IF;
  -- Resources that the session waits for and that are free. If another transaction has locked one of
  -- them, that transaction hands it off.
  FOR free_resource IN SELECT DISTINCT w.resource FROM "{schema}".waiter w
    LEFT JOIN "{schema}".lease l ON l.resource = w.resource
    LEFT JOIN "{schema}".session s ON s.id = l.session AND ${IS_ALIVE}
    WHERE w.session = p_session AND s.id IS NULL ORDER BY w.resource
  LOOP
    IF "{schema}".try_lock(free_resource) THEN
      PERFORM "{schema}".lock_lease(free_resource);
      PERFORM "{schema}".hand_off(free_resource, p_session, NULL, NULL);
    END IF;
  END LOOP;
  UPDATE "{schema}".session AS s SET expires = clock_timestamp() + s.ttl_ms * interval '1 ms'
  WHERE s.id = p_session AND ${IS_ALIVE} RETURNING s.ttl_ms INTO new_ttl_ms;
  IF new_ttl_ms IS NULL THEN RETURN 'gone'; END IF;
  IF p_acknowledged <> '[]' THEN
    DELETE FROM "{schema}".revocation r USING json_array_elements(p_acknowledged::json) a
    WHERE r.session = p_session AND r.resource = a->>'resource' AND r.token = (a->>'token')::numeric;
  END IF;
  IF p_accepted <> '[]' THEN
    DELETE FROM "{schema}".handoff h USING json_array_elements(p_accepted::json) a
    WHERE h.session = p_session AND h.resource = a->>'resource' AND h.token = (a->>'token')::numeric;
  END IF;
  -- Handoffs whose lease has ended. Compares the token once more, because a newer handoff of the
  -- same resource may replace the row before it is locked.
  DELETE FROM "{schema}".handoff h USING (
    SELECT h2.resource, h2.token FROM "{schema}".handoff h2 WHERE h2.session = p_session
      AND NOT EXISTS (SELECT FROM "{schema}".lease l
        WHERE l.resource = h2.resource AND l.session = p_session AND l.token = h2.token)) AS old
  WHERE h.session = p_session AND h.resource = old.resource AND h.token = old.token;
  RETURN json_build_object(
    'ttlMs', new_ttl_ms,
    'floor', "{schema}".current_floor()::text,
    'gone', (SELECT coalesce(json_agg(json_build_array(r.resource, r.token::text)), '[]')
      FROM "{schema}".revocation r WHERE r.session = p_session),
    'granted', (SELECT coalesce(json_agg(json_build_array(h.resource, h.token::text, h.attempt)), '[]')
      FROM "{schema}".handoff h JOIN "{schema}".lease l USING (session, resource, token)
      WHERE h.session = p_session),
    'wanted', (SELECT coalesce(json_agg(json_build_array(l.resource, l.token::text)), '[]')
      FROM (SELECT DISTINCT w.resource FROM "{schema}".waiter w) AS queue
      JOIN "{schema}".lease l USING (resource) WHERE l.session = p_session),
    'waiting', (SELECT coalesce(json_agg(json_build_array(w.attempt, w.resource,
        "{schema}".check_in(w.resource, p_session))), '[]')
      FROM "{schema}".waiter w WHERE w.session = p_session));
END $$;

CREATE OR REPLACE FUNCTION "{schema}".end_session(p_session text, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql ${BY_KEYS} AS $$
DECLARE
  wanted_resource text;
BEGIN${PREPARE}
  -- The leases of the session that have a queue, and those that it waits for. While they are locked,
  -- the session is granted nothing.
  PERFORM FROM "{schema}".lease l JOIN (
    SELECT w.resource, bool_or(w.session = p_session) AS is_own
    FROM "{schema}".waiter w GROUP BY w.resource) AS queue USING (resource)
  WHERE l.session = p_session OR queue.is_own ORDER BY l.resource FOR UPDATE OF l;
  DELETE FROM "{schema}".waiter WHERE session = p_session;
  UPDATE "{schema}".session SET ended = clock_timestamp() WHERE id = p_session AND ended IS NULL;
  DELETE FROM "{schema}".handoff WHERE session = p_session;
  DELETE FROM "{schema}".revocation WHERE session = p_session;
  -- More waiters may have joined before the session was locked. A lease that is locked by another
  -- transaction now is handed off by that one, or by the next renewal of a waiter.
  FOR wanted_resource IN SELECT DISTINCT l.resource FROM "{schema}".lease l JOIN "{schema}".waiter w USING (resource)
    WHERE l.session = p_session ORDER BY l.resource
  LOOP
    IF "{schema}".try_lock(wanted_resource) THEN
      PERFORM "{schema}".hand_off(wanted_resource, NULL, NULL, NULL);
    END IF;
  END LOOP;${NOTIFY_WATCHERS}
  RETURN 'ended';
END $$;`;

/** `{schema}` stands for the name of the schema. */
export const FUNCTIONS: string = [TOKENS, LOCKS, HAND_OFF, STEPS, SESSIONS].join("\n");
