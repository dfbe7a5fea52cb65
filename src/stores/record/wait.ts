// Waits for resources on behalf of the queued attempts of this process. One loop per resource reads
// its record after a push, or at intervals that grow while nothing changes. It reports grants. The
// first waiters of the queue also observe the session of the holder, leave it a notice that the
// lease is wanted, and take the resource over when that session has expired.

import type { Clock } from "../../async/clock.ts";
import { EXPIRY_WATCHERS } from "../queue-policy.ts";
import { Wakeup } from "../shared/wakeup.ts";
import type { RecordBackend, VersionedRecord } from "./backend.ts";
import type { Cells } from "./cells.ts";
import { CHECKS_MAX, type Leases } from "./leases.ts";
import type { Observed } from "./observed.ts";
import { type LeaseRecord, leaseAt } from "./records.ts";
import type { OwnSession, Sessions } from "./session.ts";

export interface WaitsParts {
  readonly backend: RecordBackend;
  readonly cells: Cells;
  readonly leases: Leases;
  readonly observed: Observed;
  readonly sessions: Sessions;
  readonly clock: Clock;
  readonly closing: AbortSignal;
}

interface Room {
  readonly resource: string;
  /** The sessions of the queued attempts. */
  readonly attempts: Map<string, OwnSession>;
  readonly wakeup: Wakeup;
  pollMs: number;
  /** The time until the next check. */
  delayMs: number;
  token?: bigint | undefined;
  /** The token for which this process has left a notice that the lease is wanted. */
  noticed?: bigint;
}

const CHECK_LIMIT_MS = 5_000;
/** On backends that push, only the first waiters poll this often; the others this much less. */
const PUSHED_FACTOR = 5;

export class Waits {
  readonly #parts: WaitsParts;
  readonly #rooms = new Map<string, Room>();

  constructor(parts: WaitsParts) {
    this.#parts = parts;
  }

  /** The attempt is in the queue. */
  add(own: OwnSession, resource: string, attempt: string): void {
    own.waiting.set(attempt, resource);
    const { clock, backend, cells } = this.#parts;
    const room = this.#rooms.get(resource);
    if (room === undefined) {
      const wakeup = new Wakeup(clock, { keepAlive: false });
      const { minPollMs } = backend.facts;
      const attempts = new Map([[attempt, own]]);
      const opened: Room = { resource, attempts, wakeup, pollMs: minPollMs, delayMs: minPollMs };
      this.#rooms.set(resource, opened);
      void this.#run(opened);
    } else room.attempts.set(attempt, own);
    // The grant may have been pushed before the answer to the request arrived.
    const record = cells.peek(leaseAt(resource));
    if (record !== undefined) this.onContent(resource, record);
  }

  /** The attempt does not wait any more. */
  remove(own: OwnSession, resource: string, attempt: string): void {
    own.waiting.delete(attempt);
    const room = this.#rooms.get(resource);
    if (room?.attempts.delete(attempt) && room.attempts.size === 0) room.wakeup.notify();
  }

  /** Takes a record that was read, pushed or written. Reports the grant that it contains. */
  onContent(resource: string, { held, token }: LeaseRecord): void {
    const own = held && this.#rooms.get(resource)?.attempts.get(held.attempt);
    if (held === undefined || own?.id !== held.session || token === undefined) return;
    const { attempt } = held;
    this.remove(own, resource, attempt);
    const grant = { resource, token, attempt };
    own.held.set(resource, token);
    own.unaccepted.set(resource, grant);
    queueMicrotask(() => own.events?.granted(grant));
  }

  /**
   * Reads the record of the resource, and hands the resource off if it is free. `requester`: a
   * session that was renewed just now.
   */
  async check(resource: string, endsAt: number, requester?: string): Promise<void> {
    const { leases, observed, sessions, backend } = this.#parts;
    const room = this.#rooms.get(resource);
    const expected = [...(room?.attempts ?? [])];
    const record = await leases.read(resource, endsAt);
    if (room === undefined) return;
    const queued = new Set(record.queue.map(({ attempt }) => attempt));
    // The backend has lost the attempt. A renewal reports that fewer attempts wait.
    for (const [attempt, own] of expected)
      if (room.attempts.has(attempt) && !queued.has(attempt)) this.remove(own, resource, attempt);
    if (room.attempts.size === 0) return;
    const isWatcher = await this.#isWatcher(room, record, endsAt);
    this.#planNext(room, record, isWatcher);
    const { held, token } = record;
    const { maxPollMs } = backend.facts;
    const holder = isWatcher ? await leases.findHolder(record, endsAt, maxPollMs / 2) : held;
    if (holder === undefined) await leases.handOffIfFree(resource, { endsAt, requester });
    else if (isWatcher && token !== undefined) {
      room.delayMs = Math.min(room.delayMs, observed.expiresInMs(holder) + 1);
      if (room.noticed === token) return;
      await sessions.leaveNotice(holder.session, "wanted", { resource, token }, endsAt);
      room.noticed = token;
    }
  }

  /** Whether fewer than EXPIRY_WATCHERS active waiters come before those of this process. */
  async #isWatcher({ attempts }: Room, { queue }: LeaseRecord, endsAt: number): Promise<boolean> {
    let others = 0;
    for (const waiter of queue.slice(0, CHECKS_MAX)) {
      if (attempts.has(waiter.attempt)) return true;
      if (await this.#parts.leases.isActive(waiter, endsAt)) others += 1;
      if (others === EXPIRY_WATCHERS) return false;
    }
    return true;
  }

  #planNext(room: Room, { token }: LeaseRecord, isWatcher: boolean): void {
    const { minPollMs, maxPollMs } = this.#parts.backend.facts;
    const isPushed = this.#parts.backend.subscribe !== undefined;
    if (isPushed) room.pollMs = isWatcher ? maxPollMs : maxPollMs * PUSHED_FACTOR;
    else if (token !== room.token) room.pollMs = minPollMs;
    else room.pollMs = isWatcher ? Math.min(maxPollMs, room.pollMs * 1.5) : maxPollMs;
    room.delayMs = room.pollMs;
    room.token = token;
  }

  async #run(room: Room): Promise<void> {
    const { backend, clock, closing } = this.#parts;
    const { resource, wakeup, attempts } = room;
    const stopListening = backend.subscribe?.({ key: leaseAt(resource).key }, (change) => {
      if (this.#needsCheck(room, change?.record)) wakeup.notify();
    });
    while (attempts.size > 0 && !closing.aborted) {
      await wakeup.wait(room.delayMs, closing).catch(() => undefined);
      wakeup.reset();
      if (attempts.size === 0 || closing.aborted) break;
      await this.check(resource, clock.now() + CHECK_LIMIT_MS).catch(() => {
        room.delayMs = backend.facts.maxPollMs;
      });
    }
    if (this.#rooms.get(resource) === room) this.#rooms.delete(resource);
    stopListening?.();
  }

  /**
   * Takes a pushed record, which reports a grant by itself. A check is needed only if the resource
   * is free, or if this process has become one of the first waiters. So a long queue does not cause
   * a burst of reads.
   */
  #needsCheck({ resource, attempts, delayMs }: Room, pushed: VersionedRecord | undefined): boolean {
    if (pushed === undefined) return true;
    try {
      const record = this.#parts.cells.accept(leaseAt(resource), pushed);
      const place = record.queue.findIndex(({ attempt }) => attempts.has(attempt));
      if (place < 0 || place >= EXPIRY_WATCHERS) return false;
      return record.held === undefined || delayMs > this.#parts.backend.facts.maxPollMs;
    } catch {
      return false;
    }
  }
}
