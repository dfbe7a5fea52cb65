// The functions of grant.sql.ts and session.sql.ts in src/stores/postgres, in TypeScript: one
// function for each, in the same order and under the same name, so that the two can be read side by
// side. test/stores/postgres/model.test.ts makes the same calls to both and compares every answer.

import { higher, nextToken, startOfEra } from "../../../src/core/era.ts";
import type { Step, StepAnswer } from "../../../src/stores/postgres/batch.ts";
import { EXPIRY_WATCHERS, findNext } from "../../../src/stores/queue-policy.ts";
import type { Ending } from "../../world/trace.ts";
import type { Database, LeaseRow, SessionRow, WaiterRow } from "./database.ts";

/** In microseconds, like all instants of the database. */
const MINUTE = 60_000_000;
const NOTIFICATION_BYTES_MAX = 8_000;

/** The condition {IS_ALIVE} of the SQL. */
export function isAlive(db: Database, session: string | undefined): boolean {
  const row = session === undefined ? undefined : db.sessions.get(session);
  return row !== undefined && rowIsAlive(db, row);
}

function rowIsAlive(db: Database, { ended, expires }: SessionRow): boolean {
  return ended === undefined && expires > db.parts.now();
}

/** The condition {IS_QUIET} of the SQL. */
function isQuiet(db: Database, session: string): boolean {
  const { expires, ttlMs, quietAfterMs } = db.sessions.get(session) as SessionRow;
  return expires - (ttlMs - quietAfterMs) * 1000 <= db.parts.now();
}

/** The statement {NOTIFY_WATCHERS} of the SQL. */
function notifyWatchers(db: Database): void {
  for (const [channel, until] of db.watchers)
    if (until > db.parts.now()) db.parts.notify(channel, "changed");
}

function currentFloor(db: Database): bigint {
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

function lockLease(db: Database, resource: string): LeaseRow {
  return db.leases.get(resource) ?? db.insertLease(resource, waitersFor(db, resource).length > 0);
}

function notifySession(db: Database, session: string, fact: readonly string[]): void {
  const channel = db.sessions.get(session)?.channel ?? "";
  // As json_build_array() writes it.
  const text = `[${fact.map((part) => JSON.stringify(part)).join(", ")}]`;
  if (channel !== "" && Buffer.byteLength(text) < NOTIFICATION_BYTES_MAX)
    db.parts.notify(channel, text);
}

/** In queue order. */
function waitersFor(db: Database, resource: string): WaiterRow[] {
  const found = [...db.waiters.values()].filter((waiter) => waiter.resource === resource);
  // The sort is stable, and the map is in the order of arrival.
  return found.sort((one, other) => one.rank - other.rank);
}

type NewHolder = Pick<WaiterRow, "session" | "attempt" | "record">;

function writeGrant(db: Database, lease: LeaseRow, to: NewHolder): bigint {
  lease.token = nextToken({ last: lease.token, floor: currentFloor(db), clock: clockMicros(db) });
  lease.session = to.session;
  lease.attempt = to.attempt;
  lease.record = to.record;
  lease.granted = db.parts.now();
  lease.queued = waitersFor(db, lease.resource).length > 0;
  db.parts.witness.granted(lease);
  notifyWatchers(db);
  return lease.token;
}

function stillHolds(db: Database, session: string): boolean {
  const row = db.sessions.get(session);
  if (row !== undefined && row.ended === undefined && row.expires <= db.parts.now())
    row.ended = row.expires;
  return row !== undefined && row.ended === undefined;
}

interface HandOff {
  readonly requester?: string;
  readonly attempt?: string;
  readonly preferred?: string | undefined;
}

function handOff(db: Database, lease: LeaseRow, by: HandOff = {}): bigint | undefined {
  const { resource } = lease;
  if (lease.session !== undefined && stillHolds(db, lease.session)) return undefined;
  const queue = waitersFor(db, resource);
  const mayBeGranted = ({ session }: WaiterRow): boolean =>
    isAlive(db, session) && (session === by.requester || !isQuiet(db, session));
  const next = findNext(queue, mayBeGranted, by.preferred);
  if (next === undefined) {
    if (queue.length === 0) lease.queued = false;
    return undefined;
  }
  const { session, attempt } = next;
  db.waiters.delete(attempt);
  const token = writeGrant(db, lease, next);
  if (attempt === by.attempt) return token;
  db.handoffs.set(toKey(session, resource), { session, resource, attempt, token });
  const ref = [session, resource, String(token)] as const;
  notifySession(db, session, ["granted", ...ref, attempt]);
  if (queue.length > 1) notifySession(db, session, ["wanted", ...ref]);
  return undefined;
}

function checkIn(db: Database, resource: string, session: string): number | null {
  const queue = waitersFor(db, resource);
  const place = queue.findIndex((waiter) => waiter.session === session);
  const before = new Set(queue.slice(0, Math.max(0, place)).map((waiter) => waiter.session));
  const checking = [...before].filter((id) => isAlive(db, id) && !isQuiet(db, id));
  if (place < 0 || checking.length >= EXPIRY_WATCHERS) return null;
  const holder = db.sessions.get(db.leases.get(resource)?.session ?? "");
  return holder === undefined ? null : (holder.expires - db.parts.now()) / 1000;
}

type GrantStep = Extract<Step, { kind: "grant" }>;
type ReleaseStep = Omit<Extract<Step, { kind: "release" }>, "kind">;

function acquire(db: Database, wanted: GrantStep): StepAnswer {
  const { resource, session, attempt, record, rank, queue } = wanted;
  const known = db.leases.get(resource);
  const isHeld = known !== undefined && isAlive(db, known.session);
  if (!queue && isHeld && known.attempt !== attempt && isAlive(db, session))
    return ["busy", known.record];

  if (!isAlive(db, session)) return ["gone"];
  const lease = lockLease(db, resource);
  if (lease.attempt === attempt && lease.session === session) {
    if (db.handoffs.get(toKey(session, resource))?.token === lease.token)
      db.handoffs.delete(toKey(session, resource));
    return ["granted", String(lease.token)];
  }
  if (lease.attempt === attempt) return ["ended"];
  if (lease.session === undefined && !lease.queued)
    return ["granted", String(writeGrant(db, lease, wanted))];

  if (!db.waiters.has(attempt)) {
    const holderId = wanted.holder;
    db.waiters.set(attempt, { resource, session, attempt, holderId, rank, record });
  }
  const token = handOff(db, lease, { requester: session, attempt });
  if (token !== undefined) return ["granted", String(token)];
  const holder = db.sessions.get(lease.session ?? "");
  const heldBy = holder !== undefined && holder.ended === undefined ? lease.record : null;
  if (!queue) {
    db.waiters.delete(attempt);
    return ["busy", heldBy];
  }
  if (!lease.queued && heldBy !== null && lease.session !== undefined)
    notifySession(db, lease.session, ["wanted", lease.session, resource, String(lease.token)]);
  lease.queued = true;
  return ["queued", heldBy, checkIn(db, resource, session)];
}

/** The SQL `SET session = NULL`. */
function free(db: Database, lease: LeaseRow, how: Ending): void {
  // An expired lease counts too: it would be held again if the server's clock were set back.
  db.parts.witness.freed(lease, how);
  lease.session = undefined;
}

function release(db: Database, wanted: ReleaseStep): StepAnswer {
  const { resource, session, token, preferred } = wanted;
  const lease = db.leases.get(resource);
  if (lease?.session !== session || lease.token !== BigInt(token) || !isAlive(db, session))
    return ["notHeld"];
  free(db, lease, "released");
  if (lease.queued) handOff(db, lease, { preferred });
  notifyWatchers(db);
  return ["released"];
}

export function step(db: Database, requests: string, waits: string): string {
  const steps = JSON.parse(requests) as Step[];
  const order = steps.map((_, index) => index);
  const toResource = (index: number): string => steps[index]?.resource ?? "";
  order.sort((one, other) => compareText(toResource(one), toResource(other)) || one - other);
  const answers: (StepAnswer | null)[] = steps.map(() => null);
  const locked = new Map<string, boolean>();
  for (const index of order) {
    const each = steps[index];
    if (each === undefined) continue;
    const { resource } = each;
    if (!locked.has(resource)) locked.set(resource, db.leases.has(resource) && db.parts.isLocked());
    if (waits !== "true" && locked.get(resource) === true) continue;
    answers[index] = each.kind === "release" ? release(db, each) : acquire(db, each);
  }
  return JSON.stringify(answers);
}

export function regrant(db: Database, values: readonly (string | null)[]): string {
  const [resource, session, token, attempt, holder, record, rank, queue] = values.map(String);
  const wanted = { resource, session, attempt, holder, record, rank: Number(rank) };
  const steps = [
    ...(token === "null" ? [] : [{ kind: "release", resource, session, token }]),
    { kind: "grant", ...wanted, queue: queue === "true" },
  ];
  return step(db, JSON.stringify(steps), "true");
}

export function withdraw(db: Database, resource: string, session: string, attempt: string): string {
  const lease = db.leases.get(resource);
  if (db.waiters.get(attempt)?.session === session) db.waiters.delete(attempt);
  if (lease?.session === session && lease.attempt === attempt) {
    free(db, lease, "withdrawn");
    handOff(db, lease);
    notifyWatchers(db);
  }
  return "withdrawn";
}

export function revoke(db: Database, resource: string, token: bigint): string {
  const lease = db.leases.get(resource);
  const session = lease?.token === token ? lease.session : undefined;
  if (lease === undefined || session === undefined || !isAlive(db, session)) return "notHeld";
  free(db, lease, "revoked");
  handOff(db, lease);
  notifyWatchers(db);
  const isKnown = db.revocations.some(
    (known) => known.session === session && known.resource === resource && known.token === token,
  );
  if (!isKnown) db.revocations.push({ session, resource, token });
  notifySession(db, session, ["lost", session, resource, String(token)]);
  return "revoked";
}

export function checkExpiry(db: Database, resource: string, session: string): string {
  handOff(db, lockLease(db, resource), { requester: session });
  return String(checkIn(db, resource, session) ?? "");
}

export function openSession(
  db: Database,
  id: string,
  holderId: string,
  ttl: string,
  quietAfter: string,
  channel: string,
): string {
  const [ttlMs, quietAfterMs] = [Number(ttl), Number(quietAfter)];
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
    for (const [key, { session }] of db.handoffs)
      if (!db.sessions.has(session)) db.handoffs.delete(key);
    db.revocations = db.revocations.filter(({ session }) => db.sessions.has(session));
    for (const [watcher, until] of db.watchers) if (until < now) db.watchers.delete(watcher);
  }
  const expires = now + ttlMs * 1000;
  const row = db.sessions.get(id);
  if (row === undefined) {
    const opened = { id, holderId, ttlMs, quietAfterMs, channel, expires, ended: undefined };
    db.sessions.set(id, opened);
    db.parts.witness.kept(opened);
  } else if (row.ended === undefined) {
    row.expires = expires;
    db.parts.witness.kept(row);
  }
  return String(currentFloor(db));
}

interface Ref {
  readonly resource: string;
  readonly token: string;
}

export function renew(
  db: Database,
  session: string,
  withdrawn: string,
  acknowledged: string,
  accepted: string,
): string {
  const given = JSON.parse(withdrawn) as { resource: string; attempt: string }[];
  for (const { resource, attempt } of given) withdraw(db, resource, session, attempt);
  const waited = [...db.waiters.values()].filter((waiter) => waiter.session === session);
  const free = new Set(waited.map(({ resource }) => resource));
  for (const resource of [...free].sort(compareText))
    if (!isAlive(db, db.leases.get(resource)?.session))
      handOff(db, lockLease(db, resource), { requester: session });

  const row = db.sessions.get(session);
  if (row === undefined || !rowIsAlive(db, row)) return "gone";
  row.expires = db.parts.now() + row.ttlMs * 1000;
  db.parts.witness.kept(row);
  for (const ref of JSON.parse(acknowledged) as Ref[]) acknowledge(db, session, ref);
  for (const { resource, token } of JSON.parse(accepted) as Ref[]) {
    const key = toKey(session, resource);
    if (db.handoffs.get(key)?.token === BigInt(token)) db.handoffs.delete(key);
  }
  for (const [key, handoff] of db.handoffs) {
    const lease = db.leases.get(handoff.resource);
    const isHeld = lease?.session === session && lease.token === handoff.token;
    if (handoff.session === session && !isHeld) db.handoffs.delete(key);
  }

  const own = <Of extends { session?: string | undefined }>(rows: Iterable<Of>): Of[] =>
    [...rows].filter((of) => of.session === session);
  const toRef = ({ resource, token }: { resource: string; token: bigint }): string[] => [
    resource,
    String(token),
  ];
  const queues = new Set([...db.waiters.values()].map(({ resource }) => resource));
  return JSON.stringify({
    ttlMs: row.ttlMs,
    floor: String(currentFloor(db)),
    gone: own(db.revocations).map(toRef),
    granted: own(db.handoffs.values()).map((handoff) => [...toRef(handoff), handoff.attempt]),
    wanted: own(db.leases.values())
      .filter(({ resource }) => queues.has(resource))
      .map(toRef),
    waiting: own(db.waiters.values()).map(({ attempt, resource }) => [
      attempt,
      resource,
      checkIn(db, resource, session),
    ]),
  });
}

/** The first DELETE of the SQL: of one revocation that the holder has processed. */
function acknowledge(db: Database, session: string, { resource, token }: Ref): void {
  db.revocations = db.revocations.filter(
    (row) => row.session !== session || row.resource !== resource || row.token !== BigInt(token),
  );
}

export function endSession(db: Database, session: string): string {
  for (const waiter of db.waiters.values())
    if (waiter.session === session) db.waiters.delete(waiter.attempt);
  const row = db.sessions.get(session);
  if (row !== undefined && row.ended === undefined) {
    if (rowIsAlive(db, row))
      for (const lease of db.leases.values())
        if (lease.session === session) db.parts.witness.freed(lease, "sessionEnded");
    row.ended = db.parts.now();
  }
  for (const [key, handoff] of db.handoffs)
    if (handoff.session === session) db.handoffs.delete(key);
  db.revocations = db.revocations.filter((revocation) => revocation.session !== session);
  const held = [...db.leases.values()].filter((lease) => lease.session === session);
  held.sort((one, other) => compareText(one.resource, other.resource));
  for (const lease of held) if (waitersFor(db, lease.resource).length > 0) handOff(db, lease);
  notifyWatchers(db);
  return "ended";
}

/** COLLATE "C": compares by the bytes of UTF-8. */
export function compareText(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

function toKey(session: string, resource: string): string {
  return JSON.stringify([session, resource]);
}
