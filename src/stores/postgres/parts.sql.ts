// Parts of the functions in the database that several of them share.

export const IS_ALIVE = "s.ended IS NULL AND s.expires > clock_timestamp()";
export const IS_QUIET =
  "s.expires - (s.ttl_ms - s.quiet_after_ms) * interval '1 ms' <= clock_timestamp()";

/** Every function that is a request begins with this. */
export const PREPARE = `
  -- The server waits for a row no longer than the caller does. An answer is on disk, so that a
  -- crash does not free a lease whose holder continues (S4).
  PERFORM set_config('lock_timeout', p_limit_ms::text, true);
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;`;

/** Wakes the processes that watch. Without a watcher nothing is sent, which is cheaper. */
export const NOTIFY_WATCHERS = `
  PERFORM pg_notify(w.channel, 'changed') FROM "{schema}".watcher w WHERE w.until > clock_timestamp();`;
