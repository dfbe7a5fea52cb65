// Opens, renews and ends sessions, inside the database. grant.sql.ts has the rules that these
// functions follow, and the functions that they call.

import { IS_ALIVE, NOTIFY_WATCHERS, PREPARE } from "./parts.sql.ts";

/** The planner must not read the whole table of leases to find the few that have a queue. */
const BY_KEYS = "SET enable_hashjoin = off SET enable_mergejoin = off";

export const SESSIONS: string = `
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
