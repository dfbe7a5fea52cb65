// One kept-alive session: carries out what core/session-machine.ts decides. It sends one renewal for all its leases,
// tells them of doubt and of the end, and keeps the two instants that `lease.check()` compares the clock with.

import type { Clock, ClockJump, Random, Timer } from "../async/clock.ts";
import { withLimit } from "../async/waits.ts";
import type { LossReason } from "../core/errors.ts";
import {
  openSession,
  type SessionCommand,
  type SessionEvent,
  type SessionState,
  type SessionStep,
  stepSession,
} from "../core/session-machine.ts";
import type { Timing } from "../core/timing.ts";
import {
  ACKNOWLEDGED_MAX,
  type LeaseRef,
  type RenewOutcome,
  type Store,
} from "../stores/contract.ts";

/** What a session needs of the leases tied to it. */
export interface SessionMember {
  readonly resource: string;
  readonly token: bigint;
  lose(reason: LossReason, detail: string): void;
  /** A newer grant of the same resource proves that this one is over. */
  supersede(): void;
}

export interface SessionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly timing: Timing;
  /** Renewal timers keep the process alive. */
  readonly keepAlive: boolean;
}

export interface OpenedSession {
  readonly sessionId: string;
  /** Read before the request that opened it left. */
  readonly sentAt: number;
  readonly grantedTtlMs: number;
}

/** A request that was lost may still arrive for this many ttls: far longer than any connection keeps one. */
const LATE_TTLS = 10;

const NEVER = Number.NEGATIVE_INFINITY;

export class Session {
  readonly sessionId: string;
  readonly timing: Timing;
  /** May act until this instant even while in doubt; in the past once the session has ended. */
  safeUntil: number = NEVER;
  /** The same, but in the past also while in doubt. `lease.check()` reads it on every call. */
  settledUntil: number = NEVER;
  /** The wall clock when the newest confirmed request was sent: for error messages only. */
  confirmedAt: Date;

  readonly #parts: SessionParts;
  readonly #members = new Map<string, SessionMember>();
  readonly #stopListening: () => void;
  readonly #ended = new AbortController();
  readonly #timers: { renewal?: Timer; look?: Timer } = {};
  #state: SessionState;
  /** What renewals told to be revoked while somebody acquires: it may be a grant whose lease is still being made. */
  readonly #revoked = new Set<string>();
  /** The revocations that the last answer reported. Each has been processed, so the next renewal may acknowledge it. */
  #reported: readonly LeaseRef[] = [];
  #users = 0;
  #attempts = 0;
  readonly #withdrawn = new Map<
    string,
    { readonly resource: string; readonly attempt: string; readonly until: number }
  >();
  #waiters: { resolve: () => void; reject: (reason: Error) => void }[] = [];
  #doubtCause: unknown;

  constructor(parts: SessionParts, opened: OpenedSession) {
    this.#parts = parts;
    this.sessionId = opened.sessionId;
    this.timing = parts.timing;
    this.confirmedAt = wallAt(parts.clock, opened.sentAt);
    // Read before listening: a jump that this reading finds is for Sessions, which has been listening since the sending.
    const first = openSession({ ...opened, now: parts.clock.now() }, parts.timing);
    this.#state = first.state;
    this.#stopListening = parts.clock.onJump((jump) => this.jumped(jump));
    this.#apply(first);
  }

  get inDoubt(): boolean {
    return this.#state.kind === "doubt";
  }

  /** What made the last renewal fail. */
  get doubtCause(): unknown {
    return this.#doubtCause;
  }

  get end(): { readonly reason: LossReason; readonly detail: string } | undefined {
    return this.#state.kind === "ended" ? this.#state : undefined;
  }

  /** Aborts when the session ends: whoever waits with it must stop waiting. */
  get endSignal(): AbortSignal {
    return this.#ended.signal;
  }

  get members(): Iterable<SessionMember> {
    return this.#members.values();
  }

  /** Whether this session has a lease on the resource. */
  holds(resource: string): boolean {
    return this.#members.has(resource);
  }

  /** Looks at the clock now instead of waiting for a timer. False when the session has ended. */
  look(now: number): boolean {
    if (now >= this.safeUntil) this.#feed({ type: "deadlineCheck", now });
    return this.#state.kind !== "ended";
  }

  /** Keeps the session renewed while somebody acquires with it, before there is a lease, until as many `stopUsing`. */
  use(): void {
    this.#users += 1;
  }

  stopUsing(): void {
    this.#users -= 1;
    if (this.#users === 0) this.#revoked.clear();
  }

  /** A name for one acquisition that nobody else will ever use. */
  newAttempt(): string {
    this.#attempts += 1;
    return `${this.sessionId}.${this.#attempts}`;
  }

  /** Whether a renewal has told that this grant is over, which it may have done before there was a lease to tell. */
  wasRevoked(ref: LeaseRef): boolean {
    return this.#revoked.has(nameOf(ref));
  }

  join(member: SessionMember): void {
    // The store granted the resource anew, so whoever of this session had it before has it no more.
    this.#members.get(member.resource)?.supersede();
    this.#members.set(member.resource, member);
  }

  leave(member: SessionMember): void {
    if (this.#members.get(member.resource) === member) this.#members.delete(member.resource);
  }

  /** The fate of this attempt is unknown and nobody wants it: the renewals give it back until no request can be late. */
  withdrawLater(resource: string, attempt: string): void {
    const until = this.#parts.clock.now() + LATE_TTLS * this.timing.ttlMs;
    this.#withdrawn.set(attempt, { resource, attempt, until });
  }

  /** The clock jumped since the newest confirmed request was sent. */
  jumped(jump: ClockJump): void {
    if (jump !== "possible") {
      this.#feed({ type: "clockJumped" });
      return;
    }
    this.#doubtCause ??= new Error(
      "The wall clock moved forward and no other clock did: it was set, or this machine was paused.",
    );
    this.#feed({ type: "wallStepped", now: this.#parts.clock.now() });
  }

  /** The store does not know this session any more. */
  refuse(): void {
    this.#feed({ type: "refused" });
  }

  /** Ends it on this side; the store forgets it too unless work is still running under one of its leases. */
  close(inUse: boolean): void {
    this.#feed({ type: "closed", inUse });
  }

  /** Resolves when the session is confirmed, at once if it is; rejects when it ends first. */
  confirmed(): Promise<void> {
    if (this.#state.kind === "confirmed") return Promise.resolve();
    if (this.#state.kind === "ended") return Promise.reject(new Error(this.#state.detail));
    const { clock } = this.#parts;
    // Among those who are told before the clock is read: the reading may find a jump, which ends the session.
    const outcome = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
    // Renewals do not keep the process alive, but someone who awaits their outcome does.
    const timer = clock.setTimer(() => this.look(clock.now()), this.safeUntil - clock.now(), {
      keepAlive: true,
    });
    return outcome.finally(() => timer.cancel());
  }

  #feed(event: SessionEvent): void {
    this.#apply(stepSession(this.#state, event, this.timing));
  }

  #apply(step: SessionStep): void {
    this.#state = step.state;
    // The two instants first: whoever is told something below already finds them right.
    this.safeUntil = step.state.kind === "ended" ? NEVER : step.state.safeUntil;
    this.settledUntil = step.state.kind === "confirmed" ? step.state.safeUntil : NEVER;
    for (const command of step.commands) this.#carryOut(command);
  }

  #carryOut(command: SessionCommand): void {
    const { clock, keepAlive } = this.#parts;
    switch (command.do) {
      case "renew":
        void this.#renew(command.limitMs);
        return;
      case "renewAfter":
        this.#timers.renewal?.cancel();
        this.#timers.renewal = clock.setTimer(() => this.#renewalDue(), command.delayMs, {
          keepAlive,
        });
        return;
      case "checkAt":
        this.#timers.look?.cancel();
        this.#timers.look = clock.setTimer(() => this.look(clock.now()), command.at - clock.now(), {
          keepAlive,
        });
        return;
      case "enterDoubt":
        return;
      case "leaveDoubt":
        this.#doubtCause = undefined;
        for (const waiter of this.#waiters.splice(0)) waiter.resolve();
        return;
      case "end":
        this.#finish(command);
    }
  }

  #renewalDue(): void {
    const now = this.#parts.clock.now();
    this.#feed({ type: "renewalDue", now, wanted: this.#users > 0 || this.#members.size > 0 });
  }

  async #renew(limitMs: number): Promise<void> {
    const { store, clock, random } = this.#parts;
    const { sessionId } = this;
    const withdrawn = this.#stillWithdrawn();
    const acknowledged = this.#reported.slice(0, ACKNOWLEDGED_MAX);
    const sentAt = clock.now();
    let outcome: RenewOutcome;
    try {
      outcome = await withLimit(clock, limitMs, "renewal", () =>
        store
          .renew({ sessionId, withdrawn, acknowledged, limitMs })
          .then((answer) => this.#heed(answer)),
      );
    } catch (cause) {
      // Known before the leases are told, and forgotten when the failure came too late to matter.
      this.#doubtCause = cause;
      this.#feed({ type: "renewalFailed", now: clock.now(), sentAt, draw: random.next() });
      if (this.#state.kind === "confirmed") this.#doubtCause = undefined;
      return;
    }
    if (outcome.kind === "gone") return;
    this.#feed({ type: "renewed", now: clock.now(), sentAt, grantedTtlMs: outcome.ttlMs });
    const newest = this.#state.kind === "confirmed" && this.#state.sentAt === sentAt;
    if (newest) this.confirmedAt = wallAt(clock, sentAt);
  }

  /** What is over is over, also when the answer that says so comes too late to renew anything. */
  #heed(answer: RenewOutcome): RenewOutcome {
    if (answer.kind === "gone") this.refuse();
    else {
      for (const ref of answer.gone) this.#loseOne(ref);
      // Every answer reports all that is not acknowledged yet. So this list replaces the previous one and stays short,
      // and if no answer comes, the next renewal repeats the acknowledgement.
      this.#reported = answer.gone;
    }
    return answer;
  }

  #stillWithdrawn(): { readonly resource: string; readonly attempt: string }[] {
    const now = this.#parts.clock.now();
    for (const [attempt, { until }] of this.#withdrawn)
      if (now >= until) this.#withdrawn.delete(attempt);
    return [...this.#withdrawn.values()];
  }

  #loseOne(ref: LeaseRef): void {
    const member = this.#members.get(ref.resource);
    if (member?.token === ref.token) member.lose("revoked", "a third party revoked it");
    else if (this.#users > 0) this.#revoked.add(nameOf(ref));
  }

  #finish(command: {
    readonly reason: LossReason;
    readonly detail: string;
    readonly giveUp: boolean;
  }): void {
    this.#timers.renewal?.cancel();
    this.#timers.look?.cancel();
    this.#stopListening();
    for (const member of [...this.#members.values()]) member.lose(command.reason, command.detail);
    this.#members.clear();
    this.#ended.abort();
    for (const waiter of this.#waiters.splice(0)) waiter.reject(new Error(command.detail));
    if (command.giveUp) this.#giveUp();
  }

  /** Spares the backend a dead session for the rest of its ttl. If the request fails, the ttl does the same. */
  #giveUp(): void {
    const { store, clock, timing } = this.#parts;
    const limitMs = timing.roundTripMs;
    const request = { sessionId: this.sessionId, limitMs };
    this.ending = withLimit(clock, limitMs, "end of the session", () =>
      store.endSession(request),
    ).catch(() => undefined);
  }

  /** Settles when the store has been told of the end, where it had to be. Never rejects. */
  ending: Promise<void> = Promise.resolve();
}

/** One grant among all of a store. */
function nameOf({ resource, token }: LeaseRef): string {
  return `${token} ${resource}`;
}

/** What the wall clock showed at an instant of the monotonic clock. */
function wallAt(clock: Clock, instant: number): Date {
  return new Date(clock.wallNow() - (clock.now() - instant));
}
