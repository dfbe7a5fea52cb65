// The functions of src/stores/postgres/functions.ts (SQL) in TypeScript: one function for each, in
// the same order and under the same name, so that the two can be read side by side.
// test/stores/postgres/model.test.ts makes the same calls to both and compares every answer.

import { higher, nextToken, startOfEra } from "../../../src/core/era.ts";
import { HEAD_START_MS } from "../../../src/stores/contract.ts";
import type { Database, LeaseRow, SessionRow, WaiterRow } from "./database.ts";

/**
 * How many of the first waiters learn when the holder's lease expires, and check again then. All
 * others wait for a notification.
 */
const LOOKOUTS = 2;
/** In microseconds, like all instants of the database. */
const MINUTE = 60_000_000;
/** A notification of whose turn it is lists no attempts if it would be longer than this. */
const TURN_BYTES_MAX = 7_000;

/** The condition {LIVE} of the SQL. */
export function isLive(db: Database, session: string | undefined): boolean {
  return rowIsLive(db, session === undefined ? undefined : db.sessions.get(session));
}

function rowIsLive(db: Database, row: SessionRow | undefined): boolean {
  return row !== undefined && row.ended === undefined && row.expires > db.parts.now();
}

export function currentFloor(db: Database): bigint {
  if (db.era.server === db.server) return db.era.floor;
  let lastKnown = db.era.floor;
  for (const { token } of db.leases.values()) lastKnown = higher(lastKnown, token);
  lastKnown = higher(lastKnown, BigInt(db.replayedAt ?? 0));
  db.era = { server: db.server, floor: startOfEra(lastKnown, clockMicros(db)) };
  return db.era.floor;
}

function clockMicros(db: Database): bigint {
  return BigInt(db.parts.now());
}

export interface Wanted {
  readonly resource: string;
  readonly session: string;
  readonly attempt: string;
  readonly record: string;
}

/** The assignments {TAKE} of the SQL. */
export function take(db: Database, lease: LeaseRow, wanted: Wanted): void {
  lease.token = nextToken({ last: lease.token, floor: currentFloor(db), clock: clockMicros(db) });
  lease.session = wanted.session;
  lease.attempt = wanted.attempt;
  lease.record = wanted.record;
  lease.granted = db.parts.now();
  db.parts.witness.granted(lease);
}

/** The condition {WATCHED} of the SQL. */
export function isWatched(db: Database): boolean {
  for (const until of db.watchers.values()) if (until > db.parts.now()) return true;
  return false;
}

/** The notification {TELL} of the SQL. */
export function tell(db: Database, resource: string): void {
  db.parts.notify(`r${resource}`);
}

/** The first live waiters for the resource. With `before`, only those ahead of that attempt. */
function liveWaiters(
  db: Database,
  resource: string,
  most: number,
  before?: string,
): readonly WaiterRow[] {
  const found: WaiterRow[] = [];
  // No waiter is ahead of an attempt that is not queued.
  if (before !== undefined && !db.waiters.has(before)) return found;
  for (const waiter of db.waiters.values()) {
    if (waiter.attempt === before || found.length === most) break;
    if (waiter.resource === resource && isLive(db, waiter.session)) found.push(waiter);
  }
  return found;
}

export interface Seen {
  readonly waitMs: number;
  readonly lastAttempt: string | undefined;
  readonly heldRecord: string | undefined;
}

export function look(db: Database, resource: string, attempt: string): Seen {
  const lease = db.leases.get(resource);
  if (lease === undefined) return { waitMs: 0, lastAttempt: undefined, heldRecord: undefined };
  const lastAttempt = lease.attempt;
  if (lastAttempt === attempt) return { waitMs: 0, lastAttempt, heldRecord: undefined };
  const now = db.parts.now();
  const holder = lease.session === undefined ? undefined : db.sessions.get(lease.session);
  if (holder !== undefined && rowIsLive(db, holder)) {
    const isFar = liveWaiters(db, resource, LOOKOUTS, attempt).length === LOOKOUTS;
    const leftMs = Math.max((holder.expires - now) / 1000, 0.001);
    const waitMs = isFar ? Number.POSITIVE_INFINITY : leftMs;
    return { waitMs, lastAttempt, heldRecord: lease.record };
  }
  const [head] = liveWaiters(db, resource, 1);
  let waitMs = 0;
  if (head !== undefined && head.attempt !== attempt) {
    const since = holder?.ended ?? holder?.expires ?? lease.freed;
    waitMs = Math.max(0, (since + HEAD_START_MS * 1000 - now) / 1000);
  }
  return { waitMs, lastAttempt, heldRecord: undefined };
}

export function acquire(db: Database, wanted: Wanted, queue: boolean): string {
  currentFloor(db);
  const { resource, session, attempt } = wanted;
  const usual = db.leases.get(resource);
  if (usual !== undefined && isFree(usual, attempt) && isLive(db, session)) {
    take(db, usual, wanted);
    if (isWatched(db)) tell(db, resource);
    return `granted ${usual.token}`;
  }

  if (!isLive(db, session)) return "gone";
  let seen = look(db, resource, attempt);
  if (seen.waitMs > 0 && seen.lastAttempt !== attempt && (!queue || db.waiters.has(attempt)))
    return `busy ${seen.heldRecord ?? ""}`;

  const lease = db.leases.get(resource) ?? db.insertLease(resource);
  if (lease.attempt === attempt)
    return lease.session === session ? `granted ${lease.token}` : "ended";
  const holder = lease.session === undefined ? undefined : db.sessions.get(lease.session);
  if (holder !== undefined && holder.ended === undefined && holder.expires <= db.parts.now())
    holder.ended = holder.expires;
  seen = look(db, resource, attempt);
  if (seen.waitMs > 0 || (holder !== undefined && holder.ended === undefined)) {
    if (queue) {
      if (!db.waiters.has(attempt)) db.waiters.set(attempt, { resource, session, attempt });
      lease.queued = true;
    }
    return `busy ${seen.heldRecord ?? ""}`;
  }
  db.waiters.delete(attempt);
  take(db, lease, wanted);
  lease.queued = hasWaiter(db, resource);
  if (isWatched(db)) tell(db, resource);
  return `granted ${lease.token}`;
}

/**
 * The condition of the fast path: released, no other waiter, and not granted to this attempt
 * before.
 */
export function isFree(lease: LeaseRow, attempt: string): boolean {
  return lease.session === undefined && !lease.queued && lease.attempt !== attempt;
}

function hasWaiter(db: Database, resource: string): boolean {
  for (const waiter of db.waiters.values()) if (waiter.resource === resource) return true;
  return false;
}

export function tellTurn(db: Database, resource: string): void {
  const first = liveWaiters(db, resource, LOOKOUTS + 1).map(({ attempt }) =>
    JSON.stringify(attempt),
  );
  const turn = `[${JSON.stringify(resource)}, [${first.join(", ")}]]`;
  if (first.length === 0 || Buffer.byteLength(turn) > TURN_BYTES_MAX) tell(db, resource);
  else db.parts.notify(`t${turn}`);
}

/** The SQL `SET session = NULL, freed = clock_timestamp()`. */
export function free(db: Database, lease: LeaseRow): void {
  lease.session = undefined;
  lease.freed = db.parts.now();
}

export function release(db: Database, resource: string, session: string, token: bigint): string {
  const lease = db.leases.get(resource);
  if (lease?.session !== session || lease.token !== token || !isLive(db, session)) return "notHeld";
  db.parts.witness.freed(lease, "released");
  free(db, lease);
  if (lease.queued || isWatched(db)) tellTurn(db, resource);
  return "released";
}

export function withdraw(db: Database, resource: string, session: string, attempt: string): string {
  const lease = db.leases.get(resource);
  const wasHeld = lease?.session === session && lease.attempt === attempt;
  if (wasHeld) {
    // An expired lease counts too: it would be held again if the server's clock were set back.
    db.parts.witness.freed(lease, "withdrawn");
    free(db, lease);
  }
  const waited = db.waiters.get(attempt)?.session === session && db.waiters.delete(attempt);
  if (wasHeld || waited) tellTurn(db, resource);
  return "withdrawn";
}

export function revoke(db: Database, resource: string, token: bigint): string {
  const lease = db.leases.get(resource);
  if (lease?.session === undefined || lease.token !== token || !isLive(db, lease.session))
    return "notHeld";
  const { session } = lease;
  const isKnown = db.revocations.some(
    (known) => known.session === session && known.resource === resource && known.token === token,
  );
  if (!isKnown) db.revocations.push({ session, resource, token });
  db.parts.witness.freed(lease, "revoked");
  free(db, lease);
  tellTurn(db, resource);
  return "revoked";
}

export function openSession(db: Database, id: string, holderId: string, ttlMs: number): string {
  const floor = currentFloor(db);
  const now = db.parts.now();
  let found = false;
  for (const row of db.sessions.values()) {
    if ((row.ended ?? row.expires) >= now - MINUTE) continue;
    db.sessions.delete(row.id);
    found = true;
  }
  if (found) {
    for (const { attempt, session } of db.waiters.values())
      if (!db.sessions.has(session)) db.waiters.delete(attempt);
    db.revocations = db.revocations.filter(({ session }) => db.sessions.has(session));
    for (const [watcher, until] of db.watchers) if (until < now) db.watchers.delete(watcher);
  }
  const expires = now + ttlMs * 1000;
  const known = db.sessions.get(id);
  if (known === undefined) db.sessions.set(id, { id, holderId, ttlMs, expires, ended: undefined });
  else if (known.ended === undefined) known.expires = expires;
  const row = db.sessions.get(id);
  if (row !== undefined && row.ended === undefined) db.parts.witness.kept(row);
  return `opened ${floor}`;
}

export function renew(
  db: Database,
  session: string,
  withdrawn: string,
  acknowledged: string,
): string {
  const floor = currentFloor(db);
  if (withdrawn !== "[]") {
    const given = JSON.parse(withdrawn) as { resource: string; attempt: string }[];
    given.sort((one, other) => compareText(one.resource, other.resource));
    for (const { resource, attempt } of given) withdraw(db, resource, session, attempt);
  }
  const row = db.sessions.get(session);
  if (row === undefined || !rowIsLive(db, row)) return "gone";
  row.expires = db.parts.now() + row.ttlMs * 1000;
  db.parts.witness.kept(row);
  if (acknowledged !== "[]") acknowledge(db, session, acknowledged);
  const gone: { resource: string; token: string }[] = [];
  for (const { session: of, resource, token } of db.revocations)
    if (of === session) gone.push({ resource, token: String(token) });
  const free: string[] = [];
  for (const waiter of db.waiters.values()) {
    const lease = waiter.session === session ? db.leases.get(waiter.resource) : undefined;
    if (lease !== undefined && !isLive(db, lease.session)) free.push(waiter.resource);
  }
  return JSON.stringify({ ttlMs: String(row.ttlMs), floor: String(floor), gone, free });
}

function acknowledge(db: Database, session: string, acknowledged: string): void {
  const toName = (ref: { resource: string; token: bigint | string }): string =>
    `${ref.token} ${ref.resource}`;
  const named = JSON.parse(acknowledged) as { resource: string; token: string }[];
  const handled = new Set(named.map(toName));
  db.revocations = db.revocations.filter(
    (revocation) => revocation.session !== session || !handled.has(toName(revocation)),
  );
}

export function endSession(db: Database, session: string, held: string): string {
  const told = new Set(JSON.parse(held) as string[]);
  for (const { attempt, resource, session: of } of db.waiters.values()) {
    if (of !== session) continue;
    db.waiters.delete(attempt);
    told.add(resource);
  }
  if (db.revocations.length > 0)
    db.revocations = db.revocations.filter((revocation) => revocation.session !== session);
  const row = db.sessions.get(session);
  if (row !== undefined && row.ended === undefined) {
    if (rowIsLive(db, row))
      for (const lease of db.leases.values())
        if (lease.session === session) db.parts.witness.freed(lease, "sessionEnded");
    row.ended = db.parts.now();
  }
  for (const resource of told) tellTurn(db, resource);
  return "ended";
}

/** COLLATE "C": compares by the bytes of UTF-8. */
export function compareText(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
