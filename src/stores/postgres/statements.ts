// The statement of each request. Those that change something are one call of a function; those that only read are one snapshot
// of the database. Values travel as text, so that neither client library converts them in its own way, and times leave
// the database as durations. `{schema}` stands for the name.

import type { Row } from "../../clients/postgres/link.ts";
import { listOf } from "../../clients/postgres/lists.ts";
import type { Requests } from "../../clients/postgres/requests.ts";
import { decodeRecord, decodeToken, shownRecord } from "../../core/record.ts";
import { TOKEN_LIMIT } from "../../core/token.ts";
import type { LeaseView } from "../contract.ts";
import { prefixUpperBound } from "../shared/prefix.ts";

export const CALL = {
  openSession:
    'SELECT "{schema}".open_session($1::text, $2::text, $3::text::bigint, $4::text::bigint) AS answer',
  grant: `SELECT "{schema}".acquire($1::text, $2::text, $3::text, $4::text, $5::text::boolean, $6::text::bigint) AS answer`,
  grants: `SELECT "{schema}".acquire_free($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::bigint) AS answer`,
  renew: 'SELECT "{schema}".renew($1::text, $2::text, $3::text, $4::text::bigint) AS answer',
  release:
    'SELECT "{schema}".release($1::text, $2::text, $3::text::numeric, $4::text::bigint) AS answer',
  releases:
    'SELECT "{schema}".release_held($1::text::text[], $2::text::text[], $3::text::numeric[], $4::text::bigint) AS answer',
  withdraw: 'SELECT "{schema}".withdraw($1::text, $2::text, $3::text, $4::text::bigint) AS answer',
  endSession: 'SELECT "{schema}".end_session($1::text, $2::text, $3::text::bigint) AS answer',
  revoke: 'SELECT "{schema}".revoke($1::text, $2::text::numeric, $3::text::bigint) AS answer',
  notify: "SELECT pg_notify($1::text, $2::text)::text AS answer",
  watch: `INSERT INTO "{schema}".watcher AS w (id, until)
    VALUES ($1::text, clock_timestamp() + $2::text::integer * interval '1 s')
    ON CONFLICT (id) DO UPDATE SET until = excluded.until RETURNING w.id AS answer`,
} as const;

const COLUMNS = `
  l.resource, l.token::text AS token, l.record,
  (extract(epoch FROM s.expires - clock_timestamp()) * 1000)::text AS left_ms,
  (extract(epoch FROM clock_timestamp() - l.granted) * 1000)::text AS held_ms`;
const HELD = `
  FROM "{schema}".lease l JOIN "{schema}".session s ON s.id = l.session
  WHERE s.ended IS NULL AND s.expires > clock_timestamp()`;

/** Another program may have written NaN, which PostgreSQL takes for the largest number: that row must not end the list. */
const IS_TOKEN = `l.token > 0 AND l.token < ${TOKEN_LIMIT}`;

export const LIST: string = `
  SELECT ${COLUMNS} ${HELD} AND ${IS_TOKEN} AND l.resource >= $1::text AND l.resource > coalesce($2::text, '')
    AND ($3::text IS NULL OR l.resource < $3::text)
  ORDER BY l.resource LIMIT $4::text::bigint`;

/** Answers a row in any case, so that a standby is noticed also when nobody holds. */
export const READ: string = `
  SELECT one.*, pg_is_in_recovery()::text AS standby FROM (SELECT $1::text AS asked) AS asked
  LEFT JOIN LATERAL (SELECT ${COLUMNS} ${HELD} AND l.resource = asked.asked) one ON true`;

export const LOOK = 'SELECT wait_ms::text AS wait FROM "{schema}".look($1::text, $2::text)';

/** Which of these leases the session has. */
export const KEPT = `
  SELECT l.resource, l.token::text AS token FROM "{schema}".lease l
  WHERE l.resource = ANY($1::text::text[]) AND l.session = $2::text ORDER BY l.resource`;

/** The tokens of those of these leases that the session has, by resource. */
export async function keptOf(
  requests: Requests,
  { resources, sessionId }: { readonly resources: readonly string[]; readonly sessionId: string },
  limitMs: number,
): Promise<ReadonlyMap<string, bigint>> {
  const rows = await requests.run(KEPT, [listOf(resources), sessionId], limitMs);
  return new Map(rows.map((row) => [String(row.resource), decodeToken(String(row.token))]));
}

export interface Range {
  readonly prefix: string;
  readonly after?: string | undefined;
  /** Undefined: all of them. */
  readonly limit: number | undefined;
}

/** The held leases with the prefix, behind `after`, in order. */
export async function heldIn(
  requests: Requests,
  range: Range,
  limitMs: number,
): Promise<LeaseView[]> {
  const { prefix, after = null, limit } = range;
  const below = prefixUpperBound(prefix) ?? null;
  const most = limit === undefined ? null : String(limit);
  const rows = await requests.run(LIST, [prefix, after, below, most], limitMs);
  return rows.map((row) => viewOf(row, shownRecord));
}

/** `standby`: the server that answered only follows another one, and may be behind it. */
export async function readOne(
  requests: Requests,
  resource: string,
  limitMs: number,
): Promise<{ readonly view: LeaseView; readonly standby: boolean }> {
  const row = await requests.row(READ, [resource], limitMs);
  const view = row.resource === null ? { resource } : viewOf(row, decodeRecord);
  return { view, standby: row.standby === "true" };
}

/** 0: asking for a grant is worthwhile; else how long to wait before looking again. */
export async function waitMsOf(
  requests: Requests,
  wanted: { readonly resource: string; readonly attempt: string; readonly limitMs: number },
): Promise<number> {
  const row = await requests.row(LOOK, [wanted.resource, wanted.attempt], wanted.limitMs);
  return Number(row.wait);
}

function viewOf(row: Row, recordOf: typeof shownRecord): LeaseView {
  const { holderId, sessionId, value } = recordOf(String(row.record));
  const token = decodeToken(String(row.token));
  const expiresInMs = Number(row.left_ms);
  // Below 0 if the server's clock was set back.
  const heldForMs = row.held_ms == null ? undefined : Math.max(0, Number(row.held_ms));
  return {
    resource: String(row.resource),
    holder: { holderId, sessionId, token, value, expiresInMs, heldForMs },
  };
}
