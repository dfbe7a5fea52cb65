// Reports to the sessions of this process what the file says about them: a queued attempt was
// granted, a lease was revoked, a lease is wanted. Facts that this process created itself are
// delivered after its commit. Those of other processes are read after their commits, which
// commits.ts notices. For the first waiters it also checks when the time of the holder is up,
// because no process would write anything at that moment.

import type { Clock, Timer } from "../../async/clock.ts";
import type { LeaseRef, SessionEvents } from "../contract.ts";
import { EXPIRY_WATCHERS } from "../queue-policy.ts";
import type { Fact } from "../shared/facts.ts";
import type { Commits } from "./commits.ts";
import { isHeld, type Moment, type Tables } from "./tables.ts";

/** A waiter with at most this many before it reads the file after every commit. */
const ALERT = 1;
/**
 * For each further waiter before it, a waiter reads the file this much later. With less, the many
 * processes of a long queue would keep the processors from the next holder.
 */
const TURN_MS = 5;
/** How long after a commit a holder that does not wait reads the file. */
const HOLDER_PATIENCE_MS = 5;
/** Leases that are held for less than this are not watched. */
const WATCH_AFTER_MS = 50;
/** When to read the file again after an error, or if every waiter for a free resource is quiet. */
const RETRY_MS = 250;
/** A session that has not been renewed for this many ttls has ended. */
const DEAD_TTLS = 2;

export interface NoticesParts {
  readonly tables: Tables;
  readonly commits: Commits;
  readonly clock: Clock;
  /** Aborts when the store closes. */
  readonly closing: AbortSignal;
  now(): Moment;
  /** Reads from the file. Tries again while another process recovers it. */
  read<T>(work: () => T): Promise<T>;
  /** Hands the resource off if its holder has expired. */
  checkExpiry(resource: string): Promise<void>;
}

interface Watched {
  readonly events: SessionEvents;
  readonly ttlMs: number;
  aliveAt: number;
  /** The resources of queued attempts, by attempt. */
  readonly waiting: Map<string, string>;
  /** The attempts that hold something, by resource. */
  readonly held: Map<string, string>;
  /** What was reported already, so that it is not repeated after every commit. */
  reported: Set<string>;
}

/** When to read the file again, and what to do before. */
interface Plan {
  /** How long after the next commit. */
  readonly patienceMs: number;
  /** At the latest, even if no process commits anything. */
  readonly againInMs: number;
  /** Resources whose holder has expired. */
  readonly expired: readonly string[];
}

export class Notices {
  readonly #parts: NoticesParts;
  readonly #sessions = new Map<string, Watched>();
  #isRunning = false;
  #start: Timer | undefined;
  /** Ends the current wait of the loop. */
  #wake: () => void = () => undefined;

  constructor(parts: NoticesParts) {
    this.#parts = parts;
  }

  openSession(id: string, ttlMs: number, events: SessionEvents | undefined): void {
    if (events === undefined) return;
    const aliveAt = this.#parts.clock.now();
    this.#sessions.set(id, {
      events,
      ttlMs,
      aliveAt,
      waiting: new Map(),
      held: new Map(),
      reported: new Set(),
    });
  }

  renewed(id: string): void {
    const watched = this.#sessions.get(id);
    if (watched !== undefined) watched.aliveAt = this.#parts.clock.now();
  }

  endSession(id: string): void {
    this.#sessions.delete(id);
  }

  queued(id: string, resource: string, attempt: string): void {
    const watched = this.#sessions.get(id);
    if (watched === undefined) return;
    watched.waiting.set(attempt, resource);
    if (this.#isRunning) this.#wake();
    else void this.#run();
  }

  granted(id: string, resource: string, attempt: string): void {
    const watched = this.#sessions.get(id);
    if (watched === undefined) return;
    watched.waiting.delete(attempt);
    watched.held.set(resource, attempt);
    if (this.#isRunning || this.#start !== undefined) return;
    const start = (): void => {
      this.#start = undefined;
      if (!this.#isRunning) void this.#run();
    };
    this.#start = this.#parts.clock.setTimer(start, WATCH_AFTER_MS);
  }

  released(id: string, resource: string): void {
    this.#sessions.get(id)?.held.delete(resource);
  }

  withdrawn(id: string, resource: string, attempt: string): void {
    const watched = this.#sessions.get(id);
    watched?.waiting.delete(attempt);
    if (watched?.held.get(resource) === attempt) watched.held.delete(resource);
  }

  /** Reports a fact if it concerns a session of this process. */
  deliver(fact: Fact): void {
    const watched = this.#sessions.get(fact.session);
    if (watched === undefined) return;
    if (fact.kind === "granted") {
      this.granted(fact.session, fact.grant.resource, fact.grant.attempt);
      watched.events.granted(fact.grant);
    } else if (fact.kind === "lost") this.#lost(watched, fact.ref);
    else watched.events.wanted(fact.ref);
  }

  close(): void {
    this.#start?.cancel();
    this.#sessions.clear();
  }

  async #run(): Promise<void> {
    const { commits, closing, read, checkExpiry } = this.#parts;
    this.#isRunning = true;
    const subscription = commits.subscribe({ isBackground: true });
    this.#wake = subscription.wake;
    try {
      while (this.#isNeeded() && !closing.aborted) {
        const plan = await read(() => this.#readFile()).catch(() => AFTER_ERROR);
        for (const resource of plan.expired) await checkExpiry(resource).catch(() => undefined);
        subscription.patienceMs = plan.patienceMs;
        await subscription.next(plan.againInMs, closing).catch(() => undefined);
      }
    } finally {
      this.#isRunning = false;
      subscription.close();
    }
  }

  #isNeeded(): boolean {
    const now = this.#parts.clock.now();
    for (const [id, { aliveAt, ttlMs }] of this.#sessions)
      if (now - aliveAt > DEAD_TTLS * ttlMs) this.#sessions.delete(id);
    for (const { waiting, held } of this.#sessions.values())
      if (waiting.size > 0 || held.size > 0) return true;
    return false;
  }

  #readFile(): Plan {
    const at = this.#parts.now();
    const expired: string[] = [];
    let patienceMs = HOLDER_PATIENCE_MS;
    let againInMs = Number.POSITIVE_INFINITY;
    for (const [id, watched] of this.#sessions) {
      this.#report(id, watched);
      for (const resource of new Set(watched.waiting.values())) {
        const ahead = this.#parts.tables.ahead(resource, id, at);
        patienceMs = Math.min(patienceMs, Math.max(0, ahead.count - ALERT) * TURN_MS);
        if (ahead.count >= EXPIRY_WATCHERS) {
          // If those before it are stuck, it is one of the first.
          againInMs = Math.min(againInMs, ahead.quietInMs);
          continue;
        }
        const lease = this.#parts.tables.lease(resource);
        const isFree = !isHeld(lease, at);
        if (isFree) expired.push(resource);
        const leftMs = isFree ? RETRY_MS : (lease.sessionEnd?.expiresMs ?? 0) - at.nowMs;
        againInMs = Math.min(againInMs, leftMs);
      }
    }
    return { patienceMs, againInMs, expired };
  }

  #report(id: string, watched: Watched): void {
    const { tables } = this.#parts;
    const { events, reported } = watched;
    const current = new Set<string>();
    const isNew = (kind: string, { resource, token }: LeaseRef): boolean => {
      const key = `${kind} ${token} ${resource}`;
      current.add(key);
      return !reported.has(key);
    };
    for (const grant of tables.unaccepted(id))
      if (isNew("granted", grant)) {
        this.granted(id, grant.resource, grant.attempt);
        events.granted(grant);
      }
    for (const ref of tables.revoked(id)) if (isNew("lost", ref)) this.#lost(watched, ref);
    for (const ref of tables.wanted(id)) if (isNew("wanted", ref)) events.wanted(ref);
    watched.reported = current;
  }

  #lost({ events, held }: Watched, ref: LeaseRef): void {
    held.delete(ref.resource);
    events.lost(ref);
  }
}

const AFTER_ERROR: Plan = { patienceMs: RETRY_MS, againInMs: RETRY_MS, expired: [] };
