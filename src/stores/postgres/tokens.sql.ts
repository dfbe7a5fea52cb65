// The token rule of core/era.ts as functions in the database.

import { ERA_GAP } from "../../core/era.ts";

const MICROS = (instant: string): string => `floor(extract(epoch FROM ${instant}) * 1000000)`;

/**
 * A server process is recognised by its start time. A promoted standby, a restored backup, a
 * cluster after pg_upgrade and a server after a crash all have a start time that is not the one in
 * the table, and each may have lost grants.
 */
export const TOKENS: string = `
-- clockToken() of core/era.ts.
CREATE OR REPLACE FUNCTION "{schema}".clock_token() RETURNS numeric LANGUAGE sql AS $$
  SELECT greatest(1, ${MICROS("clock_timestamp()")})
$$;

-- startOfEra() of core/era.ts.
CREATE OR REPLACE FUNCTION "{schema}".start_of_era(last_known numeric) RETURNS numeric LANGUAGE sql AS $$
  SELECT CASE
    WHEN last_known <= clock
    THEN greatest(clock, last_known + ${ERA_GAP} + floor((clock - last_known) * 7 / 8))
    ELSE last_known + ${ERA_GAP / 4n} + div(${(3n * ERA_GAP ** 2n) / 4n}, ${ERA_GAP} + last_known - clock) END
  FROM "{schema}".clock_token() AS clock
$$;

-- Identifies this server process.
CREATE OR REPLACE FUNCTION "{schema}".this_server() RETURNS text STABLE LANGUAGE sql AS $$
  SELECT ${MICROS("pg_postmaster_start_time()")}::text
$$;

-- Where the tokens of this server process start. The first call in a new process starts an era. The
-- last known token is the highest in any row. On a promoted standby it is also the time of the last
-- commit that the standby replayed, because the former primary may have granted a new resource right
-- after that, by a clock that was ahead.
CREATE OR REPLACE FUNCTION "{schema}".current_floor() RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  this_server text := "{schema}".this_server();
  last_known numeric;
  found_floor numeric;
BEGIN
  SELECT e.floor INTO found_floor FROM "{schema}".era e WHERE e.server = this_server;
  IF found_floor IS NOT NULL THEN RETURN found_floor; END IF;
  last_known := greatest(0, (SELECT max(l.token) FROM "{schema}".lease l),
    ${MICROS("pg_last_xact_replay_timestamp()")});
  INSERT INTO "{schema}".era AS e (server, floor)
  VALUES (this_server, "{schema}".start_of_era(last_known))
  ON CONFLICT (only_row) DO UPDATE
  SET server = excluded.server, floor = "{schema}".start_of_era(greatest(e.floor, last_known))
  WHERE e.server <> excluded.server
  RETURNING e.floor INTO found_floor;
  -- Another transaction has started the era.
  IF found_floor IS NULL THEN SELECT e.floor INTO found_floor FROM "{schema}".era e; END IF;
  RETURN found_floor;
END $$;

-- nextToken() of core/era.ts. Called by the statement that writes the new holder (S1).
CREATE OR REPLACE FUNCTION "{schema}".next_token(last_token numeric) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  era_floor numeric := "{schema}".current_floor();
BEGIN
  IF last_token >= era_floor THEN RETURN last_token + 1; END IF;
  RETURN greatest(era_floor, "{schema}".clock_token());
END $$;`;
