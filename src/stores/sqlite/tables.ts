// Every SQL statement of the store, with a name. Tokens leave SQLite as text, because neither
// library returns integers above 2^53 exactly without a special mode. A session is alive while the
// clock of its boot is before its end.

import type { Connection, Row, Statement } from "../../clients/sqlite/driver.ts";
import { decodeNotices, decodeToken, heldForMs, shownRecord } from "../../core/record.ts";
import type { AttemptRequest, Grant, HolderView, LeaseRef, LeaseView } from "../contract.ts";
import { prefixUpperBound } from "../shared/prefix.ts";

/** A reading of the clock that all processes of the host share. */
export interface Moment {
  readonly bootId: string;
  readonly nowMs: number;
}

export interface SessionRow {
  readonly id: string;
  readonly holderId: string;
  readonly ttlMs: number;
  readonly quietAfterMs: number;
}

/** The newest grant of a resource. */
export interface LeaseRow {
  readonly token: bigint;
  /** Null after a release. */
  readonly session: string | null;
  readonly attempt: string;
  /** As core/record.ts encodes it. */
  readonly record: string;
  /** Undefined if the session has no row, so it has ended. */
  readonly sessionEnd?: { readonly bootId: string; readonly expiresMs: number } | undefined;
}

/** What a request for a grant has to know. */
export interface Found {
  /** Whether the session that sends the request is alive. */
  readonly isAlive: boolean;
  /** Whether the resource has a queue. */
  readonly isWanted: boolean;
  readonly lease: LeaseRow | undefined;
}

export interface WaiterRow {
  readonly resource: string;
  readonly session: string;
  readonly attempt: string;
  readonly holderId: string;
  readonly rank: number;
  readonly record: string;
}

/** A grant to write. */
export interface NewGrant {
  readonly resource: string;
  readonly session: string;
  readonly attempt: string;
  readonly record: string;
  readonly clock: bigint;
  readonly isAccepted: boolean;
}

/** A waiter with more before it need not know how many. */
const AHEAD_MAX = 50;

const ALIVE = "session.boot_id = ? AND session.expires_ms > ?";
const LEASE = `
  CAST(lease.token AS TEXT) AS token, lease.session, lease.attempt, lease.record,
  session.boot_id, session.expires_ms`;

const SQL = {
  addSession: `
    INSERT INTO session (id, holder_id, ttl_ms, quiet_after_ms, boot_id, expires_ms, quiet_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  renewSession: `
    UPDATE session SET expires_ms = ? + ttl_ms, quiet_ms = ? + quiet_after_ms
    WHERE id = ? AND ${ALIVE}
    RETURNING ttl_ms`,
  // Sessions of an earlier boot begin their ttl again, by the clock of this boot.
  adoptSessions: `
    UPDATE session SET boot_id = ?, expires_ms = ? + ttl_ms, quiet_ms = ? + quiet_after_ms
    WHERE boot_id <> ?`,
  deleteSession: "DELETE FROM session WHERE id = ?",
  deleteWaiters: "DELETE FROM waiter WHERE session = ?",
  deleteRevocations: "DELETE FROM revocation WHERE session = ?",
  expired: "SELECT id FROM session WHERE boot_id = ? AND expires_ms <= ?",

  find: `
    SELECT EXISTS (SELECT 1 FROM session WHERE id = ? AND ${ALIVE}) AS is_alive,
           EXISTS (SELECT 1 FROM waiter WHERE resource = ?) AS is_wanted, ${LEASE}
    FROM (SELECT 1) LEFT JOIN lease ON lease.resource = ?
                    LEFT JOIN session ON session.id = lease.session`,
  lease: `
    SELECT ${LEASE} FROM lease LEFT JOIN session ON session.id = lease.session
    WHERE lease.resource = ?`,
  // The token goes up in the statement that names the new holder (S1). Every grant starts an era
  // (core/era.ts), because a file can be replaced by an older copy without a trace. The clock is
  // always that of this host, so the gap between two eras is 1.
  grant: `
    INSERT INTO lease (resource, token, session, attempt, record, granted_ms, granted_boot_id,
                       is_accepted)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (resource) DO UPDATE SET
      token = max(token + 1, excluded.token), session = excluded.session,
      attempt = excluded.attempt, record = excluded.record, granted_ms = excluded.granted_ms,
      granted_boot_id = excluded.granted_boot_id, is_accepted = excluded.is_accepted
    RETURNING CAST(token AS TEXT) AS token`,
  // Conditional on token and session, which must be alive: a late release of an older term matches
  // no row (S5).
  release: `
    UPDATE lease SET session = NULL WHERE resource = ? AND session = ? AND token = ?
      AND EXISTS (SELECT 1 FROM session WHERE id = lease.session AND ${ALIVE})`,
  withdraw: "UPDATE lease SET session = NULL WHERE resource = ? AND session = ? AND attempt = ?",
  accept: "UPDATE lease SET is_accepted = 1 WHERE resource = ? AND session = ? AND token = ?",
  unaccepted: `
    SELECT resource, CAST(token AS TEXT) AS token, attempt FROM lease
    WHERE session = ? AND is_accepted = 0`,

  joinQueue: `
    INSERT INTO waiter (resource, session, attempt, holder_id, rank, record)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (attempt) DO NOTHING`,
  leaveQueue: "DELETE FROM waiter WHERE attempt = ?",
  // The rule of queue-policy.ts: the preferred holder first, then by rank and arrival; only
  // sessions that are alive and not quiet. The session that sends the request is never quiet.
  next: `
    SELECT waiter.* FROM waiter JOIN session ON session.id = waiter.session
    WHERE waiter.resource = ? AND ${ALIVE} AND (session.quiet_ms > ? OR session.id = ?)
    ORDER BY waiter.holder_id IS ? DESC, waiter.rank, waiter.place LIMIT 1`,
  isWanted: "SELECT 1 FROM waiter WHERE resource = ?",
  // Every lease of the session that has a queue.
  wanted: `
    SELECT DISTINCT lease.resource, CAST(lease.token AS TEXT) AS token
    FROM waiter JOIN lease ON lease.resource = waiter.resource WHERE lease.session = ?`,
  waitedFor: "SELECT DISTINCT resource FROM waiter WHERE session = ?",
  waiting: "SELECT count(*) AS count FROM waiter WHERE session = ?",
  // The waiters before the first one of the session whose sessions are not quiet.
  ahead: `
    SELECT count(*) AS count, min(quiet_ms) AS first_ms FROM (
      SELECT session.quiet_ms
      FROM waiter JOIN session ON session.id = waiter.session,
        (SELECT rank, place FROM waiter WHERE resource = ? AND session = ?
         ORDER BY rank, place LIMIT 1) AS own
      WHERE waiter.resource = ? AND (waiter.rank, waiter.place) < (own.rank, own.place)
        AND session.boot_id = ? AND session.quiet_ms > ?
      LIMIT ${AHEAD_MAX})`,

  addRevocation: "INSERT INTO revocation (session, resource, token) VALUES (?, ?, ?)",
  acknowledge: "DELETE FROM revocation WHERE session = ? AND resource = ? AND token = ?",
  revoked: "SELECT resource, CAST(token AS TEXT) AS token FROM revocation WHERE session = ?",

  held: `
    SELECT lease.resource, CAST(lease.token AS TEXT) AS token, lease.record, lease.granted_ms,
           lease.granted_boot_id, session.expires_ms
    FROM lease JOIN session ON session.id = lease.session
    WHERE lease.resource >= ? AND (? IS NULL OR lease.resource > ?)
      AND (? IS NULL OR lease.resource < ?) AND ${ALIVE}
    ORDER BY lease.resource LIMIT ?`,
} as const;

export class Tables {
  readonly #sql: Readonly<Record<keyof typeof SQL, Statement>>;
  readonly #stepMs: number;

  /** `stepMs`: the granularity of the host's clock. */
  constructor(connection: Connection, stepMs: number) {
    const prepared = Object.entries(SQL).map(([name, text]) => [name, connection.prepare(text)]);
    this.#sql = Object.fromEntries(prepared) as Record<keyof typeof SQL, Statement>;
    this.#stepMs = stepMs;
  }

  // ---- sessions. The clock may have read up to one step too low, and a session must not end
  // early, so one step is added to its end.

  addSession({ id, holderId, ttlMs, quietAfterMs }: SessionRow, { bootId, nowMs }: Moment): void {
    const from = nowMs + this.#stepMs;
    const ends = [from + ttlMs, from + quietAfterMs] as const;
    this.#sql.addSession.run(id, holderId, ttlMs, quietAfterMs, bootId, ...ends);
  }

  /** Renews a session that is alive. Returns its ttl, or undefined if it has expired or ended. */
  renewSession(id: string, { bootId, nowMs }: Moment): number | undefined {
    const from = nowMs + this.#stepMs;
    const row = this.#sql.renewSession.get(from, from, id, bootId, nowMs);
    return row === undefined ? undefined : Number(row.ttl_ms);
  }

  /**
   * Sessions of an earlier boot begin their ttl again: how much of it is left is unknown. If the
   * file is shared between hosts after all, the other holder has stopped by then.
   */
  adoptSessions({ bootId, nowMs }: Moment): void {
    const from = nowMs + this.#stepMs;
    this.#sql.adoptSessions.run(bootId, from, from, bootId);
  }

  deleteSession(id: string): void {
    this.#sql.deleteSession.run(id);
    this.#sql.deleteWaiters.run(id);
    this.#sql.deleteRevocations.run(id);
  }

  expiredSessions({ bootId, nowMs }: Moment): string[] {
    return this.#sql.expired.all(bootId, nowMs).map(({ id }) => String(id));
  }

  // ---- leases

  find({ sessionId, resource }: AttemptRequest, { bootId, nowMs }: Moment): Found {
    const row = this.#sql.find.get(sessionId, bootId, nowMs, resource, resource);
    return {
      isAlive: Number(row?.is_alive) === 1,
      isWanted: Number(row?.is_wanted) === 1,
      lease: toLease(row),
    };
  }

  lease(resource: string): LeaseRow | undefined {
    return toLease(this.#sql.lease.get(resource));
  }

  grant(grant: NewGrant, { bootId, nowMs }: Moment): bigint {
    const { resource, session, attempt, record, clock, isAccepted } = grant;
    const granted = [nowMs, bootId, isAccepted ? 1 : 0] as const;
    const row = this.#sql.grant.get(resource, clock, session, attempt, record, ...granted);
    return decodeToken(String(row?.token));
  }

  /** Whether the lease was held by this session, which is alive, with this token. */
  release({ resource, token }: LeaseRef, session: string, { bootId, nowMs }: Moment): boolean {
    return hasChanged(this.#sql.release.run(resource, session, token, bootId, nowMs));
  }

  /** Whether the attempt had a grant. */
  withdraw(resource: string, session: string, attempt: string): boolean {
    return hasChanged(this.#sql.withdraw.run(resource, session, attempt));
  }

  accept({ resource, token }: LeaseRef, session: string): void {
    this.#sql.accept.run(resource, session, token);
  }

  unaccepted(session: string): Grant[] {
    return this.#sql.unaccepted.all(session).map((row) => ({
      resource: String(row.resource),
      token: decodeToken(String(row.token)),
      attempt: String(row.attempt),
    }));
  }

  // ---- queues

  joinQueue({ resource, session, attempt, holderId, rank, record }: WaiterRow): void {
    this.#sql.joinQueue.run(resource, session, attempt, holderId, rank, record);
  }

  leaveQueue(attempt: string): void {
    this.#sql.leaveQueue.run(attempt);
  }

  /** The waiter to which the resource is handed off if it is free. */
  next(
    resource: string,
    { bootId, nowMs }: Moment,
    {
      requester,
      preferred,
    }: {
      readonly requester?: string | undefined;
      readonly preferred?: string | undefined;
    },
  ): Pick<WaiterRow, "session" | "attempt" | "record"> | undefined {
    const facts = [bootId, nowMs, nowMs, requester ?? null, preferred ?? null] as const;
    const row = this.#sql.next.get(resource, ...facts);
    if (row === undefined) return undefined;
    const { session, attempt, record } = row;
    return { session: String(session), attempt: String(attempt), record: String(record) };
  }

  isWanted(resource: string): boolean {
    return this.#sql.isWanted.get(resource) !== undefined;
  }

  /** The leases of the session that have a queue. The session itself may have ended. */
  wanted(session: string): LeaseRef[] {
    return toRefs(this.#sql.wanted.all(session));
  }

  /** The resources that the session waits for. */
  waitedFor(session: string): string[] {
    return this.#sql.waitedFor.all(session).map(({ resource }) => String(resource));
  }

  /** How many attempts of the session wait. */
  countWaiting(session: string): number {
    return Number(this.#sql.waiting.get(session)?.count);
  }

  /**
   * How many waiters that are not quiet come before the first one of the session, and when the
   * first of them can become quiet.
   */
  ahead(
    resource: string,
    session: string,
    { bootId, nowMs }: Moment,
  ): { readonly count: number; readonly quietInMs: number } {
    const row = this.#sql.ahead.get(resource, session, resource, bootId, nowMs);
    return {
      count: Number(row?.count),
      quietInMs: row?.first_ms == null ? Number.POSITIVE_INFINITY : Number(row.first_ms) - nowMs,
    };
  }

  // ---- revocations

  addRevocation({ resource, token }: LeaseRef, session: string): void {
    this.#sql.addRevocation.run(session, resource, token);
  }

  /** Deletes a revocation that its holder has processed. */
  acknowledge({ resource, token }: LeaseRef, session: string): void {
    this.#sql.acknowledge.run(session, resource, token);
  }

  revoked(session: string): LeaseRef[] {
    return toRefs(this.#sql.revoked.all(session));
  }

  // ---- reading

  /** The held leases with the prefix and after `after`, in order. A negative limit means all. */
  held(
    range: { prefix: string; after?: string | undefined; limit: number },
    at: Moment,
    readRecord: typeof shownRecord = shownRecord,
  ): LeaseView[] {
    const after = range.after ?? null;
    const below = prefixUpperBound(range.prefix) ?? null;
    const bounds = [range.prefix, after, after, below, below] as const;
    const rows = this.#sql.held.all(...bounds, at.bootId, at.nowMs, range.limit);
    return rows.map((row) => ({
      resource: String(row.resource),
      holder: toHolder(row, at, readRecord),
    }));
  }
}

/** Whether the lease is held, by the clock of this boot. */
export function isHeld(lease: LeaseRow | undefined, at: Moment): lease is LeaseRow {
  const end = lease?.session === null ? undefined : lease?.sessionEnd;
  return end !== undefined && end.bootId === at.bootId && end.expiresMs > at.nowMs;
}

function hasChanged({ changes }: { readonly changes: number | bigint }): boolean {
  return Number(changes) > 0;
}

function toRefs(rows: readonly Row[]): LeaseRef[] {
  return decodeNotices(rows.map((row) => [String(row.resource), String(row.token)]));
}

/** Undefined if the lease has no row. */
function toLease(row: Row | undefined): LeaseRow | undefined {
  if (row?.token == null) return undefined;
  const { boot_id: bootId, expires_ms: expiresMs } = row;
  return {
    token: decodeToken(String(row.token)),
    session: row.session == null ? null : String(row.session),
    attempt: String(row.attempt),
    record: String(row.record),
    sessionEnd:
      bootId == null ? undefined : { bootId: String(bootId), expiresMs: Number(expiresMs) },
  };
}

function toHolder(row: Row, at: Moment, readRecord: typeof shownRecord): HolderView {
  const { holderId, sessionId, value } = readRecord(String(row.record));
  const grantedAtMs = Number(row.granted_ms);
  return {
    holderId,
    sessionId,
    value,
    token: decodeToken(String(row.token)),
    expiresInMs: Number(row.expires_ms) - at.nowMs,
    // The clock starts anew with every boot, so a reading of another boot says nothing.
    heldForMs: row.granted_boot_id === at.bootId ? heldForMs({ grantedAtMs }, at.nowMs) : undefined,
  };
}
