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
import { IS_ALIVE, IS_QUIET, NOTIFY_WATCHERS, PREPARE } from "./parts.sql.ts";
import { SESSIONS } from "./session.sql.ts";
import { TOKENS } from "./tokens.sql.ts";

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

-- The same for one request, or for a release and the next request of the same session, for one
-- resource. If nobody waits for it or watches, a single statement decides. p_released: the token of
-- the released lease, or null.
CREATE OR REPLACE FUNCTION "{schema}".regrant(p_resource text, p_session text, p_released numeric,
  p_attempt text, p_holder text, p_record text, p_rank bigint, p_queue boolean, p_limit_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  new_token numeric;
  released json;
  answer json;
BEGIN${PREPARE}
  UPDATE "{schema}".lease AS x
  SET token = x.token + 1, session = p_session, attempt = p_attempt, record = p_record,
    granted = clock_timestamp()
  FROM "{schema}".session s, "{schema}".era e
  WHERE x.resource = p_resource AND NOT x.queued AND x.attempt <> p_attempt
    AND CASE WHEN p_released IS NULL THEN x.session IS NULL
      ELSE x.session = p_session AND x.token = p_released END
    AND s.id = p_session AND ${IS_ALIVE}
    AND e.server = "{schema}".this_server() AND x.token >= e.floor
    AND NOT EXISTS (SELECT FROM "{schema}".watcher w WHERE w.until > clock_timestamp())
  RETURNING x.token INTO new_token;
  IF FOUND THEN
    released := json_build_array('released');
    answer := json_build_array('granted', new_token::text);
  ELSE
    IF p_released IS NOT NULL THEN
      released := "{schema}".release(p_resource, p_session, p_released, NULL);
    END IF;
    answer := "{schema}".acquire(p_resource, p_session, p_attempt, p_holder, p_record, p_rank, p_queue);
  END IF;
  IF p_released IS NULL THEN RETURN json_build_array(answer)::text; END IF;
  RETURN json_build_array(released, answer)::text;
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

/** `{schema}` stands for the name of the schema. */
export const FUNCTIONS: string = [TOKENS, LOCKS, HAND_OFF, STEPS, SESSIONS].join("\n");
