// Several grants or releases in one transaction, for a process that asks for many at the same moment. They decide only what
// the usual case of acquire() and release() decides (functions.ts), each by its own row: free, wanted by nobody else,
// session alive. Whatever is different, or locked by somebody right now, is answered with "-" and asked for by itself. So a
// batch waits for no lease's lock, and none of its requests waits for another's resource.

/** Parts of `functions.ts` that these functions share. */
export interface Fragments {
  readonly prepare: string;
  readonly prepareGrant: string;
  readonly live: string;
  readonly watched: string;
  readonly nextToken: string;
}

/**
 * One plan for every batch, made once: by the keys, row by row. The planner would make one for each batch, at ten times
 * the cost of carrying it out, or keep one that suited a table when that was small.
 */
const PLAN =
  "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off";

/** Answers are one text: what became of each, in order, between blanks. */
export function batchSql(fragments: Fragments): string {
  const { prepare, prepareGrant, live, watched, nextToken } = fragments;
  const isLive = `(SELECT ${live} FROM "{schema}".session s WHERE s.id = w.session)`;
  return `
CREATE OR REPLACE FUNCTION "{schema}".acquire_free(p_resources text[], p_sessions text[], p_attempts text[],
  p_records text[], p_limit_ms bigint) RETURNS text LANGUAGE plpgsql ${PLAN} AS $$
DECLARE
  setting text;
  era_floor numeric;
  answers text;
  told text[];
BEGIN${prepareGrant}
  -- A missing row is made first. In one order, so that two batches that make the same rows do not wait for each other.
  INSERT INTO "{schema}".lease (resource, token, attempt, record, freed)
  SELECT w.resource, 0, '', '', '-infinity' FROM unnest(p_resources, p_sessions) AS w(resource, session)
  WHERE (SELECT l.resource FROM "{schema}".lease l WHERE l.resource = w.resource) IS NULL AND ${isLive}
  ORDER BY w.resource COLLATE "C" ON CONFLICT DO NOTHING;
  WITH wanted AS (
    SELECT * FROM unnest(p_resources, p_sessions, p_attempts, p_records)
      WITH ORDINALITY AS w(resource, session, attempt, record, place)
  ), free AS (
    SELECT w.* FROM wanted w CROSS JOIN LATERAL (
      SELECT l.resource FROM "{schema}".lease l
      WHERE l.resource = w.resource AND l.session IS NULL AND NOT l.queued AND l.attempt <> w.attempt
      FOR UPDATE SKIP LOCKED) AS locked
    WHERE ${isLive}
  ), taken AS (
    UPDATE "{schema}".lease AS x SET token = ${nextToken},
      session = f.session, attempt = f.attempt, record = f.record, granted = clock_timestamp()
    FROM free f WHERE x.resource = f.resource
    RETURNING x.resource, x.attempt, x.token
  )
  SELECT string_agg(coalesce(t.token::text, '-'), ' ' ORDER BY w.place),
    array_agg(t.resource) FILTER (WHERE t.resource IS NOT NULL AND ${watched})
  INTO answers, told
  FROM wanted w LEFT JOIN taken t ON t.resource = w.resource AND t.attempt = w.attempt;
  PERFORM pg_notify('{channel}', 'r' || r) FROM unnest(told) r;
  RETURN answers;
END $$;

-- Each conditional on its session and token (S5).
CREATE OR REPLACE FUNCTION "{schema}".release_held(p_resources text[], p_sessions text[], p_tokens numeric[],
  p_limit_ms bigint) RETURNS text LANGUAGE plpgsql ${PLAN} AS $$
DECLARE
  setting text;
  answers text;
  told text[];
BEGIN${prepare}
  WITH wanted AS (
    SELECT * FROM unnest(p_resources, p_sessions, p_tokens) WITH ORDINALITY AS w(resource, session, token, place)
  ), held AS (
    SELECT w.* FROM wanted w CROSS JOIN LATERAL (
      SELECT l.resource FROM "{schema}".lease l
      WHERE l.resource = w.resource AND l.session = w.session AND l.token = w.token
      FOR UPDATE SKIP LOCKED) AS locked
    WHERE ${isLive}
  ), freed AS (
    UPDATE "{schema}".lease AS x SET session = NULL, freed = clock_timestamp()
    FROM held h WHERE x.resource = h.resource
    RETURNING x.resource, x.token, x.queued OR ${watched} AS heard
  )
  SELECT string_agg(CASE WHEN f.resource IS NULL THEN '-' ELSE 'released' END, ' ' ORDER BY w.place),
    array_agg(f.resource) FILTER (WHERE f.heard)
  INTO answers, told
  FROM wanted w LEFT JOIN freed f ON f.resource = w.resource AND f.token = w.token;
  PERFORM "{schema}".tell_turn(r) FROM unnest(told) r;
  RETURN answers;
END $$;`;
}
