// The statement of each request, and how its rows are read. A statement that changes something is
// one call of a function in the database (grant.sql.ts). Values are sent as text, so that neither
// client library converts them in its own way, and times leave the database as durations.
// `{schema}` stands for the name of the schema.

import type { Row } from "../../clients/postgres/link.ts";
import type { Requests } from "../../clients/postgres/requests.ts";
import { decodeRecord, decodeToken, shownRecord } from "../../core/record.ts";
import { TOKEN_LIMIT } from "../../core/token.ts";
import type { LeaseView } from "../contract.ts";
import { prefixUpperBound } from "../shared/prefix.ts";

export const CALL = {
  openSession: `SELECT "{schema}".open_session($1::text, $2::text, $3::text::bigint, $4::text::bigint, $5::text, $6::text::bigint) AS answer`,
  step: 'SELECT "{schema}".step($1::text, $2::text::boolean, $3::text::bigint) AS answer',
  regrant: `SELECT "{schema}".regrant($1::text, $2::text, $3::text::numeric, $4::text, $5::text, $6::text, $7::text::bigint, $8::text::boolean, $9::text::bigint) AS answer`,
  renew: `SELECT "{schema}".renew($1::text, $2::text, $3::text, $4::text, $5::text::bigint) AS answer`,
  withdraw: 'SELECT "{schema}".withdraw($1::text, $2::text, $3::text, $4::text::bigint) AS answer',
  endSession: 'SELECT "{schema}".end_session($1::text, $2::text::bigint) AS answer',
  revoke: 'SELECT "{schema}".revoke($1::text, $2::text::numeric, $3::text::bigint) AS answer',
  checkExpiry: 'SELECT "{schema}".check_expiry($1::text, $2::text, $3::text::bigint) AS answer',
  notify: "SELECT pg_notify($1::text, $2::text)::text AS answer",
  watch: `INSERT INTO "{schema}".watcher AS w (channel, until)
    VALUES ($1::text, clock_timestamp() + $2::text::integer * interval '1 s')
    ON CONFLICT (channel) DO UPDATE SET until = excluded.until RETURNING w.channel AS answer`,
} as const;

const COLUMNS = `
  l.resource, l.token::text AS token, l.record,
  (extract(epoch FROM s.expires - clock_timestamp()) * 1000)::text AS left_ms,
  (extract(epoch FROM clock_timestamp() - l.granted) * 1000)::text AS held_ms`;
const HELD = `
  FROM "{schema}".lease l JOIN "{schema}".session s ON s.id = l.session
  WHERE s.ended IS NULL AND s.expires > clock_timestamp()`;

/**
 * Another program may have written NaN, which PostgreSQL takes for the largest number. Such a row
 * must not end the list.
 */
const IS_TOKEN = `l.token > 0 AND l.token < ${TOKEN_LIMIT}`;

export const LIST: string = `
  SELECT ${COLUMNS} ${HELD} AND ${IS_TOKEN} AND l.resource >= $1::text AND l.resource > coalesce($2::text, '')
    AND ($3::text IS NULL OR l.resource < $3::text)
  ORDER BY l.resource LIMIT $4::text::bigint`;

/** Returns a row even if the resource is free, so that a standby is noticed. */
export const READ: string = `
  SELECT one.*, pg_is_in_recovery()::text AS standby FROM (SELECT $1::text AS asked) AS asked
  LEFT JOIN LATERAL (SELECT ${COLUMNS} ${HELD} AND l.resource = asked.asked) one ON true`;

/** The leases among these that the session holds. */
export const KEPT = `
  SELECT l.resource, l.token::text AS token FROM "{schema}".lease l
  WHERE l.resource IN (SELECT json_array_elements_text($1::text::json)) AND l.session = $2::text
  ORDER BY l.resource`;

/** What notifications would have reported to these sessions, as shared/facts.ts encodes it. */
export const FACTS = `
  SELECT json_build_array('granted', h.session, h.resource, h.token::text, h.attempt)::text AS fact
  FROM "{schema}".handoff h JOIN "{schema}".lease l USING (session, resource, token)
  WHERE h.session IN (SELECT json_array_elements_text($1::text::json))
  UNION ALL
  SELECT json_build_array('lost', r.session, r.resource, r.token::text)::text
  FROM "{schema}".revocation r WHERE r.session IN (SELECT json_array_elements_text($1::text::json))
  UNION ALL
  SELECT json_build_array('wanted', l.session, l.resource, l.token::text)::text
  FROM (SELECT DISTINCT w.resource FROM "{schema}".waiter w) AS queue
  JOIN "{schema}".lease l USING (resource)
  WHERE l.session IN (SELECT json_array_elements_text($1::text::json))`;

/** The tokens of the leases among these that the session holds, by resource. */
export async function readKept(
  requests: Requests,
  { resources, sessionId }: { readonly resources: readonly string[]; readonly sessionId: string },
  limitMs: number,
): Promise<ReadonlyMap<string, bigint>> {
  const rows = await requests.run(KEPT, [JSON.stringify(resources), sessionId], limitMs);
  return new Map(rows.map((row) => [String(row.resource), decodeToken(String(row.token))]));
}

export interface Range {
  readonly prefix: string;
  readonly after?: string | undefined;
  /** Undefined: all of them. */
  readonly limit?: number | undefined;
}

/** The held leases with the prefix and after `after`, in order. */
export async function readHeld(
  requests: Requests,
  { prefix, after, limit }: Range,
  limitMs: number,
): Promise<LeaseView[]> {
  const most = limit === undefined ? null : String(limit);
  const values = [prefix, after ?? null, prefixUpperBound(prefix) ?? null, most];
  const rows = await requests.run(LIST, values, limitMs);
  return rows.map((row) => toView(row, shownRecord));
}

/** `isStandby`: the server that answered follows another one, and may be outdated. */
export async function readOne(
  requests: Requests,
  resource: string,
  limitMs: number,
): Promise<{ readonly view: LeaseView; readonly isStandby: boolean }> {
  const row = await requests.row(READ, [resource], limitMs);
  const view = row.resource === null ? { resource } : toView(row, decodeRecord);
  return { view, isStandby: row.standby === "true" };
}

function toView(row: Row, readRecord: typeof shownRecord): LeaseView {
  const { holderId, sessionId, value } = readRecord(String(row.record));
  const token = decodeToken(String(row.token));
  const expiresInMs = Number(row.left_ms);
  // Below 0 if the server's clock was set back.
  const heldForMs = row.held_ms == null ? undefined : Math.max(0, Number(row.held_ms));
  return {
    resource: String(row.resource),
    holder: { holderId, sessionId, token, value, expiresInMs, heldForMs },
  };
}
