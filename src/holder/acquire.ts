// One acquisition, from the first request to the lease. It requests the grant and, if the store has
// queued it, waits until its session learns that the store has handed the resource off to it. A
// lost answer is resolved by repeating the request as the same attempt. An acquisition that gives
// up withdraws whatever the store may have granted or queued for it.

import type { Clock, Random, Timer } from "../async/clock.ts";
import type { InFlight } from "../async/counter.ts";
import { type LinkedSignal, linkSignals, orAborted } from "../async/signals.ts";
import { pause, stayAlive, withLimit } from "../async/waits.ts";
import { backoffMs } from "../core/backoff.ts";
import { AcquireTimeoutError, isTenureError, type StoreUnavailableError } from "../core/errors.ts";
import type { Timing } from "../core/timing.ts";
import type { GrantOutcome, Store } from "../stores/contract.ts";
import type { AwaitedGrant } from "./awaited-grants.ts";
import { HeldLease, type HeldLeaseParts } from "./held-lease.ts";
import type { Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";
import type { TokenMemory } from "./token-memory.ts";

export interface AcquireParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  readonly sessions: Sessions;
  readonly tokens: TokenMemory;
  /** Acquisitions in progress. close() waits for them. */
  readonly acquiring: InFlight;
  /** Aborts when the Tenure closes. */
  readonly closing: AbortSignal;
  readonly onLastingGuard: (() => void) | undefined;
}

/** The lease to acquire: the caller's options, checked and completed. */
export interface LeasePlan {
  readonly resource: string;
  readonly timing: Timing;
  readonly value: unknown;
  readonly actsInDoubt: boolean;
}

/** How long the caller waits. */
export interface WaitPlan {
  /** Undefined: do not wait, and do not queue. */
  readonly waitMs: number | undefined;
  readonly signal: AbortSignal | undefined;
  /** Attempts with a lower rank come first in the queue. */
  readonly rank?: number | undefined;
  /** Called each time the store confirms that the attempt is in the queue. */
  readonly onQueued?: (() => void) | undefined;
}

/** How often a caller that does not wait tries to reach an unavailable store. */
const TRIES_WITHOUT_WAIT = 2;
const UNAVAILABLE_BACKOFF = { baseMs: 50, capMs: 1_000 };
const WAIT_OVER = Symbol("waitMs has passed");

/** The session or the grant ended during the acquisition: try again with a new attempt. */
const TRY_AGAIN = Symbol("try again");

/** Held by another holder; `heldBy` if the store has named it. */
export interface Busy {
  readonly heldBy: string | undefined;
}

export function acquire(
  parts: AcquireParts,
  plan: LeasePlan,
  wait: WaitPlan,
): Promise<HeldLease | Busy> {
  return new Acquisition(parts, plan, wait).run();
}

class Acquisition {
  readonly #parts: AcquireParts;
  readonly #plan: LeasePlan;
  readonly #wait: WaitPlan;
  readonly #startedAt: number;
  #waiting: { readonly link: LinkedSignal; readonly timer: Timer | undefined } | undefined;
  #heldBy: string | undefined;
  #failures = 0;
  #unavailable: StoreUnavailableError | undefined;

  constructor(parts: AcquireParts, plan: LeasePlan, wait: WaitPlan) {
    this.#parts = parts;
    this.#plan = plan;
    this.#wait = wait;
    this.#startedAt = parts.clock.now();
  }

  async run(): Promise<HeldLease | Busy> {
    const { timing } = this.#plan;
    const { sessions, acquiring } = this.#parts;
    acquiring.begin();
    try {
      this.#throwIfOver();
      for (;;) {
        const session = sessions.current(timing) ?? (await this.#liveSession());
        const answer = await this.#attempt(session);
        if (answer !== TRY_AGAIN) return answer;
      }
    } catch (error) {
      throw error === WAIT_OVER ? this.#timedOut() : error;
    } finally {
      this.#waiting?.timer?.cancel();
      this.#waiting?.link.unlink();
      acquiring.end();
    }
  }

  /**
   * Aborts every wait: on the caller's signal, on close(), or when `waitMs` has passed. Created
   * when the first wait begins, so that a free resource costs neither a timer nor a signal.
   */
  #ending(): AbortSignal {
    if (this.#waiting === undefined) {
      const { clock, closing } = this.#parts;
      const { waitMs, signal } = this.#wait;
      const over = new AbortController();
      const link = linkSignals(closing, signal, over.signal);
      const leftMs = this.#startedAt + (waitMs ?? Number.POSITIVE_INFINITY) - clock.now();
      const limited = leftMs < Number.POSITIVE_INFINITY;
      const end = (): void => over.abort(WAIT_OVER);
      this.#waiting = {
        link,
        timer: limited ? clock.setTimer(end, leftMs, { keepAlive: true }) : stayAlive(clock),
      };
    }
    return this.#waiting.link.signal;
  }

  #throwIfOver(): void {
    this.#parts.closing.throwIfAborted();
    this.#wait.signal?.throwIfAborted();
    this.#waiting?.link.signal.throwIfAborted();
  }

  async #liveSession(): Promise<Session> {
    for (;;) {
      try {
        return await this.#parts.sessions.live(this.#plan.timing);
      } catch (error) {
        await this.#backOff(error);
      }
    }
  }

  /** Requests the grant as one attempt until it is granted or there is a reason to stop. */
  async #attempt(session: Session): Promise<HeldLease | Busy | typeof TRY_AGAIN> {
    session.startUsing();
    const awaited = session.awaitGrant();
    const { attempt } = awaited;
    const { tokens } = this.#parts;
    const { resource } = this.#plan;
    const before = tokens.highest(resource);
    // What the store may keep for this attempt: a grant whose answer was lost, or a queue entry.
    let atStore: "nothing" | "queued" | "unknown" = "nothing";
    let mayArriveAgain = false;
    let lease: HeldLease | undefined;
    try {
      for (;;) {
        let outcome: GrantOutcome;
        try {
          outcome = await this.#grant(session, attempt);
        } catch (error) {
          if (isUnavailable(error) && error.applied === "unknown") {
            atStore = "unknown";
            mayArriveAgain = true;
          }
          await this.#backOff(error);
          if (session.end !== undefined) return TRY_AGAIN;
          continue;
        }
        this.#unavailable = undefined;
        if (outcome.kind === "queued") {
          this.#heldBy = outcome.holderId;
          if (atStore === "nothing") atStore = "queued";
          this.#wait.onQueued?.();
          if (!(await this.#untilWoken(session, awaited))) return TRY_AGAIN;
        }
        // The store may have reported a handoff before it answered the request.
        const token = outcome.kind === "granted" ? outcome.token : awaited.token;
        if (token !== undefined) {
          atStore = "unknown";
          if (!tokens.accept(resource, token, before)) return TRY_AGAIN;
          this.#throwIfOver();
          if (session.inDoubt) await this.#untilConfirmed(session);
          lease = this.#accept(session, { attempt, mayArriveAgain, token });
          return lease ?? TRY_AGAIN;
        }
        if (outcome.kind === "queued") continue;
        if (outcome.kind === "gone") session.markGone();
        return outcome.kind === "busy" ? { heldBy: outcome.holderId } : TRY_AGAIN;
      }
    } finally {
      session.stopAwaiting(awaited);
      // A request that is still in flight may arrive after this withdrawal.
      const late = { mayArriveAgain: atStore === "unknown" };
      if (lease === undefined && atStore !== "nothing")
        await session.withdraw(resource, attempt, late);
      session.stopUsing();
    }
  }

  #grant(session: Session, attempt: string): Promise<GrantOutcome> {
    const { store, clock, holderId } = this.#parts;
    const { resource, timing, value } = this.#plan;
    const queue = this.#wait.waitMs !== undefined;
    const limitMs = timing.roundTripMs;
    const { sessionId } = session;
    const { rank } = this.#wait;
    return withLimit(clock, limitMs, "request for a grant", () =>
      store.grant({ sessionId, resource, attempt, holderId, value, queue, rank, limitMs }),
    );
  }

  #untilConfirmed(session: Session): Promise<void> {
    return orAborted(session.confirmed(), this.#ending()).catch(() => this.#throwIfOver());
  }

  /** Turns a grant with a new token into a lease, unless session or grant ended in the meantime. */
  #accept(
    session: Session,
    grant: Pick<HeldLeaseParts, "attempt" | "mayArriveAgain" | "token">,
  ): HeldLease | undefined {
    const { store, clock, onLastingGuard } = this.#parts;
    const { resource, actsInDoubt } = this.#plan;
    // The answer may have come after the session's deadline. A late grant does not revive it.
    if (!session.checkDeadline(clock.now())) return undefined;
    const { attempt, mayArriveAgain, token } = grant;
    // The renewal that ended a doubt may also have reported that this grant was revoked.
    if (session.wasRevoked({ resource, token })) return undefined;
    return new HeldLease({
      store,
      clock,
      session,
      resource,
      token,
      attempt,
      mayArriveAgain,
      actsInDoubt,
      onLastingGuard,
    });
  }

  /**
   * Waits until the session learns of the handoff, or that the request must be repeated. False: the
   * session ended.
   */
  async #untilWoken(session: Session, awaited: AwaitedGrant): Promise<boolean> {
    const { signal, unlink } = linkSignals(this.#ending(), session.endSignal);
    const woken = new Promise<void>((resolve) => {
      awaited.wake = resolve;
      if (awaited.token !== undefined) resolve();
    });
    awaited.isQueued = true;
    try {
      await orAborted(woken, signal);
      return true;
    } catch {
      this.#throwIfOver();
      return false;
    } finally {
      awaited.isQueued = false;
      awaited.wake = undefined;
      unlink();
    }
  }

  /** Waits before the next try after a failure; throws if no try is left. */
  async #backOff(error: unknown): Promise<void> {
    this.#throwIfOver();
    if (!isUnavailable(error)) throw error;
    this.#unavailable = error;
    this.#failures += 1;
    if (this.#wait.waitMs === undefined && this.#failures >= TRIES_WITHOUT_WAIT) throw error;
    const delayMs = backoffMs(UNAVAILABLE_BACKOFF, this.#failures, this.#parts.random.next());
    await pause(this.#parts.clock, delayMs, this.#ending());
  }

  #timedOut(): Error {
    const { resource } = this.#plan;
    const { waitMs = 0 } = this.#wait;
    return (
      this.#unavailable ?? toTimeoutError(this.#parts, { resource, waitMs, heldBy: this.#heldBy })
    );
  }
}

/** The error for a resource that stayed busy. Says so if this process itself holds it. */
export function toTimeoutError(
  { sessions, holderId }: Pick<AcquireParts, "sessions" | "holderId">,
  facts: { resource: string; waitMs: number; heldBy: string | undefined },
): AcquireTimeoutError {
  if (sessions.holds(facts.resource))
    return AcquireTimeoutError.from({ ...facts, heldBy: holderId, whom: "self" });
  return AcquireTimeoutError.from({
    ...facts,
    whom: facts.heldBy === holderId ? "namesake" : "other",
  });
}

function isUnavailable(error: unknown): error is StoreUnavailableError {
  return isTenureError(error, "STORE_UNAVAILABLE");
}
