// Every SQL statement of the store, with a name. Tokens leave SQLite as text, because neither library gives integers
// above 2^53 exactly without a special mode. "Live" always means: this boot's clock is before the session's end.

import type { Connection, Row, Statement } from "../../clients/sqlite/driver.ts";
import { decodeNotices, decodeToken, heldForMs, shownRecord } from "../../core/record.ts";
import { HEAD_START_MS, type HolderView, type LeaseRef, type LeaseView } from "../contract.ts";
import { prefixUpperBound } from "../shared/prefix.ts";

/** What the file says about a resource, and about the session that its newest grant belongs to. */
export interface LeaseRow {
  readonly token: bigint;
  readonly session: string | null;
  readonly attempt: string;
  /** As core/record.ts encodes it. */
  readonly record: string;
  readonly freedMs: number;
  /** Undefined when the session is gone from the file. */
  readonly sessionEnd?: { readonly bootId: string; readonly expiresMs: number } | undefined;
}

export interface Moment {
  readonly bootId: string;
  readonly nowMs: number;
}

/** What was found for someone who asks for a grant. */
export interface Asked {
  /** Whether the asker's own session lives. */
  readonly lives: boolean;
  readonly row: LeaseRow | undefined;
  /** The waiter whose turn it is: the first one whose session lives. */
  readonly head: string | undefined;
}

/** Whoever has more before it need not know how many. */
const AHEAD_MAX = 50;

const LIVE = "session.boot_id = ? AND session.expires_ms > ? AND session.ttl_ms > 0";
const LEASE =
  "CAST(lease.token AS TEXT) AS token, lease.session, lease.attempt, lease.record, lease.freed_ms";
const HEAD = `
    SELECT waiter.attempt FROM waiter JOIN session ON session.id = waiter.session
    WHERE waiter.resource = ? AND ${LIVE} ORDER BY waiter.place LIMIT 1`;

const SQL = {
  addSession:
    "INSERT INTO session (id, holder_id, ttl_ms, boot_id, expires_ms) VALUES (?, ?, ?, ?, ?)",
  prolong: `UPDATE session SET expires_ms = ? + ttl_ms + ? WHERE id = ? AND ${LIVE} RETURNING ttl_ms`,
  // Its row stays for a while, to tell since when its leases are free; one that had expired keeps that instant.
  endSession:
    "UPDATE session SET ttl_ms = 0, expires_ms = min(expires_ms, ?) WHERE id = ? AND ttl_ms > 0",
  endWaiters: "DELETE FROM waiter WHERE session = ?",
  endRevocations: "DELETE FROM revocation WHERE session = ?",
  adopt: `
    UPDATE session SET boot_id = ?, expires_ms = ? + iif(ttl_ms > 0, ttl_ms + ?, 0)
    WHERE boot_id <> ?`,
  sweepSessions: "DELETE FROM session WHERE boot_id = ? AND expires_ms <= ?",
  sweepWaiters: "DELETE FROM waiter WHERE session NOT IN (SELECT id FROM session)",
  sweepRevocations: "DELETE FROM revocation WHERE session NOT IN (SELECT id FROM session)",
  lease: `
    SELECT ${LEASE}, session.boot_id, session.expires_ms
    FROM lease LEFT JOIN session ON session.id = lease.session WHERE lease.resource = ?`,
  // All that a grant has to know, read at once.
  asked: `
    SELECT EXISTS (SELECT 1 FROM session WHERE id = ? AND ${LIVE}) AS lives, (${HEAD}) AS head,
           ${LEASE}, session.boot_id, session.expires_ms
    FROM (SELECT 1) LEFT JOIN lease ON lease.resource = ? LEFT JOIN session ON session.id = lease.session`,
  // The grant itself: the counter goes up in the same statement that names the new holder (S1). Every grant starts an era
  // (core/era.ts), because a file can be replaced by an older copy without a trace. The clock is always that of this
  // host, so the gap between two eras is 1.
  grant: `
    INSERT INTO lease (resource, token, session, attempt, record, freed_ms) VALUES (?, ?, ?, ?, ?, 0)
    ON CONFLICT (resource) DO UPDATE SET token = max(token + 1, excluded.token),
      session = excluded.session, attempt = excluded.attempt, record = excluded.record
    RETURNING CAST(token AS TEXT) AS token`,
  // Conditional on session, which must live, and token: a late release of an older term matches no row (S5).
  release: `
    UPDATE lease SET session = NULL, freed_ms = ? WHERE resource = ? AND session = ? AND token = ?
      AND EXISTS (SELECT 1 FROM session WHERE id = lease.session AND ${LIVE})`,
  withdraw:
    "UPDATE lease SET session = NULL, freed_ms = ? WHERE resource = ? AND session = ? AND attempt = ?",
  joinQueue:
    "INSERT INTO waiter (resource, session, attempt) VALUES (?, ?, ?) ON CONFLICT (attempt) DO NOTHING",
  leaveQueue: "DELETE FROM waiter WHERE attempt = ?",
  head: HEAD,
  ahead: `
    SELECT count(*) AS count, min(expires_ms) AS ends_ms FROM (
      SELECT session.expires_ms FROM waiter JOIN session ON session.id = waiter.session
      WHERE waiter.resource = ? AND waiter.place < (SELECT place FROM waiter WHERE attempt = ?) AND ${LIVE}
      LIMIT ${AHEAD_MAX})`,
  addRevocation: "INSERT INTO revocation (session, resource, token) VALUES (?, ?, ?)",
  acknowledge: "DELETE FROM revocation WHERE session = ? AND resource = ? AND token = ?",
  revoked: "SELECT resource, CAST(token AS TEXT) AS token FROM revocation WHERE session = ?",
  held: `
    SELECT lease.resource, CAST(lease.token AS TEXT) AS token, lease.record, session.expires_ms
    FROM lease JOIN session ON session.id = lease.session
    WHERE lease.resource >= ? AND (? IS NULL OR lease.resource > ?) AND (? IS NULL OR lease.resource < ?) AND ${LIVE}
    ORDER BY lease.resource LIMIT ?`,
} as const;

export class Tables {
  readonly #sql: Readonly<Record<keyof typeof SQL, Statement>>;

  constructor(connection: Connection) {
    const prepared = Object.entries(SQL).map(([name, text]) => [name, connection.prepare(text)]);
    this.#sql = Object.fromEntries(prepared) as Record<keyof typeof SQL, Statement>;
  }

  addSession(session: {
    id: string;
    holderId: string;
    ttlMs: number;
    expiresMs: number;
    bootId: string;
  }): void {
    const { id, holderId, ttlMs, bootId, expiresMs } = session;
    this.#sql.addSession.run(id, holderId, ttlMs, bootId, expiresMs);
  }

  /** Prolongs a live session to its own ttl from now. Answers that ttl, or undefined for a dead one. */
  prolong(id: string, at: Moment, stepMs: number): number | undefined {
    const row = this.#sql.prolong.get(at.nowMs, stepMs, id, at.bootId, at.nowMs);
    return row === undefined ? undefined : Number(row.ttl_ms);
  }

  endSession(id: string, nowMs: number): void {
    this.#sql.endSession.run(nowMs, id);
    this.#sql.endWaiters.run(id);
    this.#sql.endRevocations.run(id);
  }

  /**
   * Sessions of another boot get one whole ttl more, by this boot's clock: nobody can tell how much of it is left, and
   * should the file be shared between hosts after all, the other holder has stopped by then.
   */
  adoptForeignSessions(at: Moment, stepMs: number): void {
    this.#sql.adopt.run(at.bootId, at.nowMs, stepMs, at.bootId);
  }

  /**
   * Forgets sessions that are over, with all that hangs on them. Leases are free by that already, and for longer than a
   * head start: from then on nobody has to know since when.
   */
  sweep(at: Moment): void {
    this.#sql.sweepSessions.run(at.bootId, at.nowMs - HEAD_START_MS);
    this.#sql.sweepWaiters.run();
    this.#sql.sweepRevocations.run();
  }

  lease(resource: string): LeaseRow | undefined {
    return leaseOf(this.#sql.lease.get(resource));
  }

  asked(session: string, resource: string, at: Moment): Asked {
    const { bootId, nowMs } = at;
    const row = this.#sql.asked.get(session, bootId, nowMs, resource, bootId, nowMs, resource);
    return {
      lives: Number(row?.lives) === 1,
      row: leaseOf(row),
      head: row?.head == null ? undefined : String(row.head),
    };
  }

  grant(grant: {
    resource: string;
    session: string;
    attempt: string;
    record: string;
    clock: bigint;
  }): bigint {
    const { resource, session, attempt, record, clock } = grant;
    const row = this.#sql.grant.get(resource, clock, session, attempt, record);
    return decodeToken(String(row?.token));
  }

  /** Whether it was held by this session, which lives, under this token. */
  release(
    { resource, token }: LeaseRef,
    session: string,
    { bootId, nowMs }: Moment,
    freedMs: number = nowMs,
  ): boolean {
    const done = this.#sql.release.run(freedMs, resource, session, token, bootId, nowMs);
    return Number(done.changes) > 0;
  }

  withdraw(attempt: { resource: string; attempt: string }, session: string, nowMs: number): void {
    this.leaveQueue(attempt.attempt);
    this.#sql.withdraw.run(nowMs, attempt.resource, session, attempt.attempt);
  }

  joinQueue(waiter: { resource: string; session: string; attempt: string }): void {
    this.#sql.joinQueue.run(waiter.resource, waiter.session, waiter.attempt);
  }

  leaveQueue(attempt: string): void {
    this.#sql.leaveQueue.run(attempt);
  }

  /** The waiter whose turn it is: the first one whose session lives. */
  head(resource: string, at: Moment): string | undefined {
    const row = this.#sql.head.get(resource, at.bootId, at.nowMs);
    return row === undefined ? undefined : String(row.attempt);
  }

  /** How many stand in line before this attempt whose sessions live, and in how many milliseconds the first of these may not. */
  ahead(resource: string, attempt: string, at: Moment): { count: number; sureMs: number } {
    const row = this.#sql.ahead.get(resource, attempt, at.bootId, at.nowMs);
    const count = Number(row?.count);
    return {
      count,
      sureMs: count === 0 ? Number.POSITIVE_INFINITY : Number(row?.ends_ms) - at.nowMs,
    };
  }

  revoke(ref: LeaseRef, session: string, at: Moment): boolean {
    if (!this.release(ref, session, at)) return false;
    this.#sql.addRevocation.run(session, ref.resource, ref.token);
    return true;
  }

  /** Deletes a revocation that its holder has processed. */
  acknowledge({ resource, token }: LeaseRef, session: string): void {
    this.#sql.acknowledge.run(session, resource, token);
  }

  revoked(session: string): LeaseRef[] {
    const rows = this.#sql.revoked.all(session);
    return decodeNotices(rows.map((row) => [String(row.resource), String(row.token)]));
  }

  /** The held leases with the prefix, behind `after`, in order; a negative limit means all. */
  held(
    range: { prefix: string; after?: string | undefined; limit: number },
    at: Moment,
    recordOf: typeof shownRecord = shownRecord,
  ): LeaseView[] {
    const after = range.after ?? null;
    const below = prefixUpperBound(range.prefix) ?? null;
    const bounds = [range.prefix, after, after, below, below] as const;
    const rows = this.#sql.held.all(...bounds, at.bootId, at.nowMs, range.limit);
    return rows.map((row) => ({
      resource: String(row.resource),
      holder: holderOf(row, at, recordOf),
    }));
  }
}

/** When the resource is free and this attempt may take it: 0 for now, or how long to wait at most before looking. */
export function lookAgainInMs(
  row: LeaseRow | undefined,
  head: string | undefined,
  attempt: string,
  at: Moment,
): number {
  if (row === undefined) return 0;
  const end = row.session === null ? undefined : row.sessionEnd;
  if (end !== undefined && end.bootId === at.bootId && end.expiresMs > at.nowMs)
    return end.expiresMs - at.nowMs;
  if (head === undefined || head === attempt) return 0;
  const aheadMs = (end === undefined ? row.freedMs : end.expiresMs) - at.nowMs;
  // Nothing is freed so far in the future: it was by the clock of another boot, and whoever was first then has had its time.
  return aheadMs > HEAD_START_MS ? 0 : Math.max(0, aheadMs + HEAD_START_MS);
}

/** Undefined when there is no row of the lease. */
function leaseOf(row: Row | undefined): LeaseRow | undefined {
  if (row?.token == null) return undefined;
  return {
    token: decodeToken(String(row.token)),
    session: row.session == null ? null : String(row.session),
    attempt: String(row.attempt),
    record: String(row.record),
    freedMs: Number(row.freed_ms),
    sessionEnd:
      row.boot_id == null
        ? undefined
        : { bootId: String(row.boot_id), expiresMs: Number(row.expires_ms) },
  };
}

function holderOf(row: Row, at: Moment, recordOf: typeof shownRecord): HolderView {
  const { holderId, sessionId, value, ...granted } = recordOf(String(row.record));
  return {
    ...{ holderId, sessionId, value, token: decodeToken(String(row.token)) },
    expiresInMs: Number(row.expires_ms) - at.nowMs,
    // The clock starts anew with every boot, so a reading of another boot says nothing.
    heldForMs: granted.bootId === at.bootId ? heldForMs(granted, at.nowMs) : undefined,
  };
}
