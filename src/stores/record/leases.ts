// The steps that change the record of a resource. Each is one conditional write: a grant, a release
// with the handoff to the next waiter, and the takeover from a session that has ended.
// queue-policy.ts states who is next, and memory/backend.ts is the reference.

import type { Clock } from "../../async/clock.ts";
import { clockToken, nextToken } from "../../core/era.ts";
import { encodeValue } from "../../core/record.ts";
import type { GrantOutcome, GrantRequest, LeaseRef } from "../contract.ts";
import { EXPIRY_WATCHERS, findNext, findPlace } from "../queue-policy.ts";
import type { Cells } from "./cells.ts";
import type { Named, Observed } from "./observed.ts";
import { type LeaseRecord, leaseAt, type Waiter } from "./records.ts";
import type { Sessions } from "./session.ts";

export interface LeasesParts {
  readonly cells: Cells;
  readonly observed: Observed;
  readonly sessions: Sessions;
  readonly clock: Clock;
}

/** Identifies an attempt of a session. */
type Entry = Pick<Waiter, "session" | "attempt">;

interface HandOff {
  readonly endsAt: number;
  /** The session whose request causes the handoff. It is not quiet. */
  readonly requester?: string | undefined;
  readonly preferred?: string | undefined;
}

/** How many sessions of waiters one step may check. More quiet ones are left to their renewals. */
export const CHECKS_MAX = 8;

export class Leases {
  readonly #parts: LeasesParts;

  constructor(parts: LeasesParts) {
    this.#parts = parts;
  }

  read(resource: string, endsAt: number): Promise<LeaseRecord> {
    return this.#parts.cells.read(leaseAt(resource), endsAt);
  }

  /** `ttlMs`: of the session that asks. */
  grant(request: GrantRequest, ttlMs: number, endsAt: number): Promise<GrantOutcome> {
    const { sessionId: session, attempt, holderId, rank = 0 } = request;
    const value = encodeValue(request.value);
    const asked: Waiter = { session, attempt, holderId, value, rank, ttlMs };
    return this.#parts.cells.change(leaseAt(request.resource), endsAt, async (record) => {
      const { held, queue } = record;
      if (held !== undefined && isSame(held, asked)) return { answer: toGranted(record) };
      if (record.lastAttempt === attempt) return { answer: { kind: "ended" } };
      const isQueued = queue.some((waiter) => isSame(waiter, asked));
      const joined = isQueued ? queue : insert(queue, asked);
      // A caller that does not wait gets an answer, so it must be right. A waiter goes on checking.
      const maxAgeMs = request.queue ? Number.POSITIVE_INFINITY : 0;
      if (held !== undefined && !(await this.#hasEnded(held, endsAt, maxAgeMs))) {
        if (!request.queue) return { answer: { kind: "busy", holderId: held.holderId } };
        const write = isQueued ? undefined : { ...record, queue: joined };
        return { write, answer: { kind: "queued", holderId: held.holderId } };
      }
      const free = { ...record, held: undefined, queue: joined };
      const next = await this.#handOff(free, { endsAt, requester: session });
      if (next.lastAttempt === attempt) return { write: next, answer: toGranted(next) };
      const other = next.held?.holderId;
      if (request.queue) return { write: next, answer: { kind: "queued", holderId: other } };
      const write = { ...next, queue: without(next.queue, asked) };
      return { write, answer: { kind: "busy", holderId: other } };
    });
  }

  /** Frees the resource if the session holds it with this token. False: it did not. */
  release(session: string, { resource, token }: LeaseRef, handOff: HandOff): Promise<boolean> {
    return this.#parts.cells.change(leaseAt(resource), handOff.endsAt, async (record, inDoubt) => {
      const isHeld = record.held?.session === session && record.token === token;
      // If it was held before a write with a lost answer, then that write has freed it.
      if (!isHeld) return { answer: inDoubt };
      return { write: await this.#handOff({ ...record, held: undefined }, handOff), answer: true };
    });
  }

  /** Removes an attempt from the queue, or frees the resource if the attempt holds it. */
  withdraw(resource: string, entry: Entry, endsAt: number): Promise<void> {
    return this.#parts.cells.change(leaseAt(resource), endsAt, async (record) => {
      const { held, queue } = record;
      const rest = { ...record, queue: without(queue, entry) };
      if (held !== undefined && isSame(held, entry)) {
        const write = await this.#handOff({ ...rest, held: undefined }, { endsAt });
        return { write, answer: undefined };
      }
      const isQueued = rest.queue.length < queue.length;
      return { write: isQueued ? rest : undefined, answer: undefined };
    });
  }

  /** Hands the resource off if it is free, or if the session of its holder has ended or expired. */
  handOffIfFree(resource: string, handOff: HandOff): Promise<void> {
    return this.#parts.cells.change(leaseAt(resource), handOff.endsAt, async (record) => {
      const { held } = record;
      const isFree = held === undefined || (await this.#hasEnded(held, handOff.endsAt));
      if (!isFree || record.queue.length === 0) return { answer: undefined };
      const next = await this.#handOff({ ...record, held: undefined }, handOff);
      return { write: next.held === undefined ? undefined : next, answer: undefined };
    });
  }

  /**
   * Reads the queue of a resource and the sessions of its first waiters, so that a release need not
   * do so. Resolves with whether an attempt waits.
   */
  async prepareHandOff(resource: string, endsAt: number): Promise<boolean> {
    const { queue } = await this.read(resource, endsAt);
    await Promise.all(queue.slice(0, EXPIRY_WATCHERS).map((each) => this.isActive(each, endsAt)));
    return queue.length > 0;
  }

  /** The holder, unless its session has ended. Ends the session if it has expired. */
  async findHolder(
    { held }: LeaseRecord,
    endsAt: number,
    maxAgeMs: number,
  ): Promise<Waiter | undefined> {
    return held && !(await this.#hasEnded(held, endsAt, maxAgeMs)) ? held : undefined;
  }

  /** A session of this process that is active needs no check. */
  async #hasEnded(
    named: Named,
    endsAt: number,
    maxAgeMs: number = Number.POSITIVE_INFINITY,
  ): Promise<boolean> {
    if (this.#parts.sessions.isActive(named.session) === true) return false;
    return this.#parts.observed.hasEnded(named, endsAt, maxAgeMs);
  }

  /** Grants a free resource to the next waiter, if there is one (queue-policy.ts). */
  async #handOff(free: LeaseRecord, handOff: HandOff): Promise<LeaseRecord> {
    const { observed, clock } = this.#parts;
    const next = await this.#findNext(free.queue, handOff);
    const queue = free.queue.filter(
      ({ attempt, session }) => attempt !== next?.attempt && !observed.isKnownEnded(session),
    );
    if (next === undefined) return { ...free, queue };
    const grantedAtMs = Math.round(clock.wallNow());
    const now = clockToken(grantedAtMs);
    // The engine cannot prove that the backend has not lost data, so every token is at least as
    // high as the clock, and above the last known one (S1).
    const token = nextToken({ last: free.token, floor: now, clock: now });
    return { token, lastAttempt: next.attempt, held: { ...next, grantedAtMs }, queue };
  }

  /** Checks sessions in the order of the queue, and only as many as needed. */
  async #findNext(
    queue: readonly Waiter[],
    { endsAt, requester, preferred }: HandOff,
  ): Promise<Waiter | undefined> {
    const isActive = new Map<string, boolean>();
    while (isActive.size <= CHECKS_MAX) {
      const next = findNext(queue, ({ session }) => isActive.get(session) ?? true, preferred);
      if (next === undefined || next.session === requester) return next;
      if (isActive.get(next.session) === true) return next;
      isActive.set(next.session, await this.isActive(next, endsAt));
    }
    return queue.find(({ session }) => session === requester);
  }

  /**
   * Whether a waiter may be granted a resource. One whose session cannot be read now may: if it is
   * dead, its grant expires with its session.
   */
  async isActive(named: Named, endsAt: number): Promise<boolean> {
    const own = this.#parts.sessions.isActive(named.session);
    return own ?? this.#parts.observed.isActive(named, endsAt).catch(() => true);
  }
}

function toGranted({ token }: LeaseRecord): GrantOutcome {
  return token === undefined ? { kind: "ended" } : { kind: "granted", token };
}

function insert(queue: readonly Waiter[], waiter: Waiter): Waiter[] {
  const joined = [...queue];
  joined.splice(findPlace(queue, waiter.rank), 0, waiter);
  return joined;
}

function without(queue: readonly Waiter[], entry: Entry): Waiter[] {
  return queue.filter((waiter) => !isSame(waiter, entry));
}

function isSame(one: Entry, other: Entry): boolean {
  return one.attempt === other.attempt && one.session === other.session;
}
