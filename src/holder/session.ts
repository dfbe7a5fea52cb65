// One session with a store, kept alive by renewals. core/session-machine.ts decides what to do, and
// this file does it: it sends one renewal for all leases of the session, reports the end of the
// session to them, and keeps the two deadlines that `lease.check()` compares with the clock.

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
  type Grant,
  type LeaseRef,
  type RenewOutcome,
  type SessionEvents,
  type Store,
} from "../stores/contract.ts";
import { type AwaitedGrant, AwaitedGrants, type GrantReport } from "./awaited-grants.ts";
import { Withdrawals } from "./withdrawals.ts";

/** A lease, as its session sees it. */
export interface SessionMember {
  readonly resource: string;
  readonly token: bigint;
  lose(reason: LossReason, detail: string): void;
  /** Another attempt waits for the resource. */
  want(): void;
  /** A newer grant of the same resource proves that this one has ended. */
  supersede(): void;
}

export interface SessionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly timing: Timing;
  /** Whether renewal timers keep the process alive. */
  readonly keepAlive: boolean;
}

export interface OpenedSession {
  readonly sessionId: string;
  /** The time on the monotonic clock before the opening request was sent. */
  readonly sentAt: number;
  readonly grantedTtlMs: number;
}

const NEVER = Number.NEGATIVE_INFINITY;

export class Session implements SessionEvents {
  readonly sessionId: string;
  readonly timing: Timing;
  /** Leases may act until this instant, even in doubt. In the past once the session has ended. */
  safeUntil: number = NEVER;
  /** As safeUntil, but also in the past while in doubt. `lease.check()` reads it on every call. */
  confirmedUntil: number = NEVER;
  /** Wall-clock time when the newest confirmed request was sent. For error messages only. */
  confirmedAt: Date;

  readonly #parts: SessionParts;
  readonly #members = new Map<string, SessionMember>();
  readonly #stopListening: () => void;
  readonly #ended = new AbortController();
  readonly #timers: { renewal?: Timer; deadline?: Timer } = {};
  #state: SessionState;
  readonly #awaited = new AwaitedGrants();
  /**
   * Facts reported while an acquisition is in progress. They may concern a grant whose lease object
   * does not exist yet.
   */
  readonly #early = { lost: new Set<string>(), wanted: new Set<string>() };
  /**
   * Revocations reported by the last answer. All are processed; the next renewal acknowledges them.
   */
  #reported: readonly LeaseRef[] = [];
  #users = 0;
  #attempts = 0;
  readonly #withdrawals: Withdrawals;
  #waiters: { resolve: () => void; reject: (reason: Error) => void }[] = [];
  #doubtCause: unknown;

  constructor(parts: SessionParts, opened: OpenedSession) {
    this.#parts = parts;
    this.#withdrawals = new Withdrawals(parts.clock, parts.timing);
    this.sessionId = opened.sessionId;
    this.timing = parts.timing;
    this.confirmedAt = wallAt(parts.clock, opened.sentAt);
    // The clock is read before this session listens for jumps. Sessions has listened since the
    // request was sent, so it handles a jump that this reading detects.
    const first = openSession({ ...opened, now: parts.clock.now() }, parts.timing);
    this.#state = first.state;
    this.#stopListening = parts.clock.onJump((jump) => this.jumped(jump));
    this.#apply(first);
  }

  get inDoubt(): boolean {
    return this.#state.kind === "doubt";
  }

  /** Why the last renewal failed. */
  get doubtCause(): unknown {
    return this.#doubtCause;
  }

  get end(): { readonly reason: LossReason; readonly detail: string } | undefined {
    return this.#state.kind === "ended" ? this.#state : undefined;
  }

  /**
   * Aborts when the session ends. An acquisition that waits with this session must stop waiting.
   */
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

  /** Whether this very lease belongs to the session and has not ended. */
  includes(member: SessionMember): boolean {
    return this.#members.get(member.resource) === member;
  }

  /** Checks the deadline now instead of waiting for a timer. False: the session has ended. */
  checkDeadline(now: number): boolean {
    if (now >= this.safeUntil) this.#feed({ type: "deadlineCheck", now });
    return this.#state.kind !== "ended";
  }

  /**
   * Keeps the session renewed during an acquisition, before there is a lease. Each call needs one
   * stopUsing().
   */
  startUsing(): void {
    this.#users += 1;
  }

  stopUsing(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#early.lost.clear();
    this.#early.wanted.clear();
  }

  /** Begins an acquisition with a new attempt. Each call needs one stopAwaiting(). */
  awaitGrant(): AwaitedGrant {
    this.#attempts += 1;
    return this.#awaited.begin(`${this.sessionId}.${this.#attempts}`);
  }

  stopAwaiting(awaited: AwaitedGrant): void {
    this.#awaited.end(awaited);
  }

  /** Whether the store has reported that this grant was revoked. */
  wasRevoked(ref: LeaseRef): boolean {
    return this.#early.lost.has(toKey(ref));
  }

  /** The store reports that it has handed a resource off to an attempt of this session. */
  granted(grant: Grant): void {
    const { resource, token, attempt } = grant;
    const member = this.#members.get(resource);
    // A resource has one holder, so an earlier lease has ended.
    if (member !== undefined && member.token < token) member.supersede();
    if (this.#awaited.deliver(grant) || member?.token === token) return;
    // The acquisition has given up. Renewals repeat this if it gets lost.
    if (!this.#withdrawals.has(attempt))
      void this.withdraw(resource, attempt, { mayArriveAgain: true });
  }

  /** The store reports that a lease of this session was revoked. */
  lost(ref: LeaseRef): void {
    const member = this.#members.get(ref.resource);
    if (member?.token === ref.token) member.lose("revoked", "a third party revoked it");
    else if (this.#users > 0) this.#early.lost.add(toKey(ref));
  }

  /** The store reports that another attempt waits for a resource that this session holds. */
  wanted(ref: LeaseRef): void {
    const member = this.#members.get(ref.resource);
    if (member?.token === ref.token) member.want();
    else if (this.#users > 0) this.#early.wanted.add(toKey(ref));
  }

  join(member: SessionMember): void {
    // The store has granted the resource again, so an earlier lease of this session has ended.
    this.#members.get(member.resource)?.supersede();
    this.#members.set(member.resource, member);
    if (this.#early.wanted.has(toKey(member))) member.want();
  }

  leave(member: SessionMember): void {
    if (this.#members.get(member.resource) === member) this.#members.delete(member.resource);
  }

  /**
   * Withdraws an attempt at the store. Renewals repeat it if the store does not answer, or if a
   * request of the attempt may still arrive after it. Never rejects.
   */
  async withdraw(
    resource: string,
    attempt: string,
    { mayArriveAgain }: { readonly mayArriveAgain: boolean },
  ): Promise<void> {
    const { store, clock } = this.#parts;
    const { sessionId } = this;
    const limitMs = this.timing.roundTripMs;
    if (mayArriveAgain) this.withdrawOnRenewal(resource, attempt);
    await withLimit(clock, limitMs, "withdrawal", () =>
      store.withdraw({ sessionId, resource, attempt, limitMs }),
    ).catch(() => this.withdrawOnRenewal(resource, attempt));
  }

  /** Renewals withdraw this attempt until no copy of its request can still arrive. */
  withdrawOnRenewal(resource: string, attempt: string): void {
    this.#withdrawals.add(resource, attempt);
  }

  /** The clock has jumped since the newest confirmed request was sent. */
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

  /** The store no longer knows this session. */
  markGone(): void {
    this.#feed({ type: "refused" });
  }

  /** Ends the session here, and in the store too unless work still runs under one of its leases. */
  close(inUse: boolean): void {
    this.#feed({ type: "closed", inUse });
  }

  /** Resolves as soon as the session is not in doubt; rejects if it ends first. */
  confirmed(): Promise<void> {
    if (this.#state.kind === "confirmed") return Promise.resolve();
    if (this.#state.kind === "ended") return Promise.reject(new Error(this.#state.detail));
    const { clock } = this.#parts;
    // Registered before the clock is read: the reading may detect a jump, which ends the session.
    const outcome = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
    // Renewal timers do not keep the process alive, but a caller that awaits their outcome does.
    const checkDeadline = (): boolean => this.checkDeadline(clock.now());
    const timer = clock.setTimer(checkDeadline, this.safeUntil - clock.now(), { keepAlive: true });
    return outcome.finally(() => timer.cancel());
  }

  #feed(event: SessionEvent): void {
    this.#apply(stepSession(this.#state, event, this.timing));
  }

  #apply(step: SessionStep): void {
    this.#state = step.state;
    // The deadlines first: code that is notified below may read them.
    this.safeUntil = step.state.kind === "ended" ? NEVER : step.state.safeUntil;
    this.confirmedUntil = step.state.kind === "confirmed" ? step.state.safeUntil : NEVER;
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
        this.#timers.deadline?.cancel();
        this.#timers.deadline = clock.setTimer(
          () => this.checkDeadline(clock.now()),
          command.at - clock.now(),
          { keepAlive },
        );
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
    const withdrawn = this.#withdrawals.list();
    const acknowledged = this.#reported.slice(0, ACKNOWLEDGED_MAX);
    const report = this.#awaited.prepareReport(
      ({ resource, token }) => this.#members.get(resource)?.token === token,
    );
    const { accepted } = report;
    const sentAt = clock.now();
    let outcome: RenewOutcome;
    try {
      outcome = await withLimit(clock, limitMs, "renewal", () =>
        store
          .renew({ sessionId, withdrawn, acknowledged, accepted, limitMs })
          .then((answer) => this.#processAnswer(answer, report)),
      );
    } catch (cause) {
      // Set before the leases can ask for it; cleared again if a newer renewal was confirmed.
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

  /** Processes reported facts even if the answer comes too late to count as a renewal. */
  #processAnswer(answer: RenewOutcome, report: GrantReport): RenewOutcome {
    if (answer.kind === "gone") {
      this.markGone();
      return answer;
    }
    for (const ref of answer.gone) this.lost(ref);
    // Each answer reports everything not acknowledged yet, so this list replaces the previous one
    // and stays short. If no answer comes, the next renewal repeats the acknowledgement.
    this.#reported = answer.gone;
    for (const grant of answer.granted ?? []) this.granted(grant);
    for (const ref of answer.wanted ?? []) this.wanted(ref);
    this.#awaited.confirmReport(report, answer.waiting);
    return answer;
  }

  #finish(command: {
    readonly reason: LossReason;
    readonly detail: string;
    readonly giveUp: boolean;
  }): void {
    this.#timers.renewal?.cancel();
    this.#timers.deadline?.cancel();
    this.#stopListening();
    for (const member of [...this.#members.values()]) member.lose(command.reason, command.detail);
    this.#members.clear();
    this.#ended.abort();
    for (const waiter of this.#waiters.splice(0)) waiter.reject(new Error(command.detail));
    if (command.giveUp) this.#endAtStore();
  }

  /**
   * Frees the session in the backend early. If the request fails, the session expires by itself.
   */
  #endAtStore(): void {
    const { store, clock, timing } = this.#parts;
    const limitMs = timing.roundTripMs;
    const request = { sessionId: this.sessionId, limitMs };
    this.ending = withLimit(clock, limitMs, "end of the session", () =>
      store.endSession(request),
    ).catch(() => undefined);
  }

  /** Settles when the request that ends the session, if any, is finished. Never rejects. */
  ending: Promise<void> = Promise.resolve();
}

/** Identifies one grant of a store. */
function toKey({ resource, token }: LeaseRef): string {
  return `${token} ${resource}`;
}

/** The wall-clock time at an instant of the monotonic clock. */
function wallAt(clock: Clock, instant: number): Date {
  return new Date(clock.wallNow() - (clock.now() - instant));
}
