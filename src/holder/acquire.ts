// One acquisition, from the first request to the lease: take a turn in this process, ask the store, wait for its
// wake-up while busy, and resolve lost answers by asking again under the same attempt. Whatever it may have got at the
// store when it gives up is given back.

import type { Clock, Random, Timer } from "../async/clock.ts";
import type { InFlight } from "../async/counter.ts";
import { type LinkedSignal, linkSignals, orAborted } from "../async/signals.ts";
import { pause, withLimit } from "../async/waits.ts";
import { backoffMs } from "../core/backoff.ts";
import { AcquireTimeoutError, isTenureError, type StoreUnavailableError } from "../core/errors.ts";
import type { Timing } from "../core/timing.ts";
import type { GrantOutcome, Store } from "../stores/contract.ts";
import { Lease, type LeaseParts } from "./lease.ts";
import type { Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";
import type { TokenMemory } from "./token-memory.ts";
import type { Turns } from "./turns.ts";

export interface AcquireParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  readonly sessions: Sessions;
  readonly turns: Turns;
  readonly tokens: TokenMemory;
  /** Whoever acquires: closing waits for them. */
  readonly acquiring: InFlight;
  /** Aborts when the whole Tenure closes. */
  readonly closing: AbortSignal;
  readonly onLastingGuard: (() => void) | undefined;
}

/** What the lease shall be like: the caller's options, checked and completed. */
export interface LeasePlan {
  readonly resource: string;
  readonly timing: Timing;
  readonly value: unknown;
  readonly actsInDoubt: boolean;
}

/** How far the caller goes to get it. */
export interface AcquireWish {
  /** Undefined: do not wait at all, and answer that it is busy. */
  readonly waitMs: number | undefined;
  readonly signal: AbortSignal | undefined;
  /** Called whenever the store is asked for the grant, so that something else can be asked at the same time. */
  readonly onAsk?: (() => void) | undefined;
}

/** A store that stays unreachable is asked this often by someone who does not wait. */
const TRIES_WITHOUT_WAIT = 2;
const UNAVAILABLE_BACKOFF = { baseMs: 50, capMs: 1_000 };
const WAIT_OVER = Symbol("the wait is over");

/** The session ended under the acquisition: take a new one and ask again. */
const SESSION_GONE = Symbol("the session is gone");

/** Somebody else has it, as far as is known who. */
export interface Busy {
  readonly heldBy: string | undefined;
}

export function acquire(
  parts: AcquireParts,
  plan: LeasePlan,
  wish: AcquireWish,
): Promise<Lease | Busy> {
  return new Acquisition(parts, plan, wish).run();
}

class Acquisition {
  readonly #parts: AcquireParts;
  readonly #plan: LeasePlan;
  readonly #wish: AcquireWish;
  readonly #startedAt: number;
  #waiting: { readonly link: LinkedSignal; readonly timer: Timer | undefined } | undefined;
  #heldBy: string | undefined;
  #failures = 0;
  #unavailable: StoreUnavailableError | undefined;

  constructor(parts: AcquireParts, plan: LeasePlan, wish: AcquireWish) {
    this.#parts = parts;
    this.#plan = plan;
    this.#wish = wish;
    this.#startedAt = parts.clock.now();
  }

  async run(): Promise<Lease | Busy> {
    const { waitMs } = this.#wish;
    const { resource, timing } = this.#plan;
    const { turns, sessions, acquiring } = this.#parts;
    let hasTurn = false;
    acquiring.begin();
    try {
      this.#throwIfOver();
      hasTurn = turns.tryTake(resource);
      if (!hasTurn && waitMs !== undefined) {
        await turns.take(resource, this.#ending());
        hasTurn = true;
      }
      while (hasTurn) {
        const session = sessions.current(timing) ?? (await this.#liveSession());
        const answer = await this.#ask(session);
        if (answer === undefined) break;
        if (answer !== SESSION_GONE) return answer;
      }
      return { heldBy: this.#heldBy };
    } catch (error) {
      throw error === WAIT_OVER ? this.#timedOut() : error;
    } finally {
      if (hasTurn) turns.end(resource);
      this.#waiting?.timer?.cancel();
      this.#waiting?.link.unlink();
      acquiring.end();
    }
  }

  /**
   * Ends every wait: by the caller's signal, by close(), or because `waitMs` is over. Made when the first wait begins,
   * so that a free resource costs neither timer nor signal.
   */
  #ending(): AbortSignal {
    if (this.#waiting === undefined) {
      const { clock, closing } = this.#parts;
      const { waitMs, signal } = this.#wish;
      const over = new AbortController();
      const link = linkSignals(closing, signal, over.signal);
      const leftMs = this.#startedAt + (waitMs ?? Number.POSITIVE_INFINITY) - clock.now();
      const limited = leftMs < Number.POSITIVE_INFINITY;
      const end = (): void => over.abort(WAIT_OVER);
      this.#waiting = {
        link,
        timer: limited ? clock.setTimer(end, leftMs, { keepAlive: true }) : undefined,
      };
    }
    return this.#waiting.link.signal;
  }

  #throwIfOver(): void {
    this.#parts.closing.throwIfAborted();
    this.#wish.signal?.throwIfAborted();
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

  /** Asks under one attempt until it is granted, or until there is a reason to stop. */
  async #ask(session: Session): Promise<Lease | undefined | typeof SESSION_GONE> {
    session.use();
    const attempt = session.newAttempt();
    // Whether the store may keep something for this attempt: a grant whose answer got lost, or a place in the queue.
    let atStore: "nothing" | "queued" | "unknown" = "nothing";
    let mayArriveAgain = false;
    let lease: Lease | undefined;
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
          if (session.end !== undefined) return SESSION_GONE;
          continue;
        }
        this.#unavailable = undefined;
        if (outcome.kind === "granted") {
          atStore = "unknown";
          this.#parts.tokens.accept(this.#plan.resource, outcome.token);
          this.#throwIfOver();
          if (session.inDoubt) await this.#untilSettled(session);
          lease = this.#accept(session, { attempt, mayArriveAgain, token: outcome.token });
          return lease ?? SESSION_GONE;
        }
        if (outcome.kind === "gone") session.refuse();
        if (outcome.kind !== "busy") return SESSION_GONE;
        this.#heldBy = outcome.holderId;
        if (this.#wish.waitMs === undefined) return undefined;
        if (atStore === "nothing") atStore = "queued";
        if (!(await this.#untilFree(session, attempt, mayArriveAgain))) return SESSION_GONE;
      }
    } finally {
      if (lease === undefined && atStore !== "nothing")
        await this.#withdraw(session, attempt, atStore);
      session.stopUsing();
    }
  }

  #grant(session: Session, attempt: string): Promise<GrantOutcome> {
    const { store, clock, holderId } = this.#parts;
    const { resource, timing, value } = this.#plan;
    const queue = this.#wish.waitMs !== undefined;
    const limitMs = timing.roundTripMs;
    const { sessionId } = session;
    this.#wish.onAsk?.();
    return withLimit(clock, limitMs, "request for a grant", () =>
      store.grant({
        sessionId,
        resource,
        attempt,
        holderId,
        value,
        queue,
        limitMs,
      }),
    );
  }

  #untilSettled(session: Session): Promise<void> {
    return orAborted(session.confirmed(), this.#ending()).catch(() => this.#throwIfOver());
  }

  /** The store said yes, and the token is new. Whether the caller may have it depends on the clock. */
  #accept(
    session: Session,
    grant: Pick<LeaseParts, "attempt" | "mayArriveAgain" | "token">,
  ): Lease | undefined {
    const { store, clock, onLastingGuard } = this.#parts;
    const { resource, actsInDoubt } = this.#plan;
    // The answer may have come after the session's end, which no yes of the store can undo.
    if (!session.look(clock.now())) return undefined;
    const { attempt, mayArriveAgain, token } = grant;
    // While the end of doubt was waited for, the renewal that brought it may have brought this as well.
    if (session.wasRevoked({ resource, token })) return undefined;
    return new Lease({
      ...{ store, clock, session, resource, token, attempt, mayArriveAgain, actsInDoubt },
      onLastingGuard,
    });
  }

  /**
   * False when the session ended meanwhile. Where an earlier request may still arrive it is not waited for ever: it may be
   * granted while the store is waited for, and the store need not know that the one who waits is the one who holds.
   */
  async #untilFree(session: Session, attempt: string, mayArriveAgain: boolean): Promise<boolean> {
    const { store, clock } = this.#parts;
    const { resource, timing } = this.#plan;
    const again = mayArriveAgain ? new AbortController() : undefined;
    const askAgain = (): void => again?.abort("time to ask again");
    const timer = again && clock.setTimer(askAgain, timing.renewEveryMs, { keepAlive: true });
    const { signal, unlink } = linkSignals(this.#ending(), session.endSignal, again?.signal);
    const request = {
      sessionId: session.sessionId,
      resource,
      attempt,
      limitMs: timing.roundTripMs,
      signal,
    };
    try {
      // The session may have ended, or the time run out, while the store answered.
      signal.throwIfAborted();
      await store.untilFree(request);
      return true;
    } catch (error) {
      this.#throwIfOver();
      if (session.end !== undefined) return false;
      if (again?.signal.aborted !== true) await this.#backOff(error);
      return true;
    } finally {
      timer?.cancel();
      unlink();
    }
  }

  async #withdraw(session: Session, attempt: string, atStore: "queued" | "unknown"): Promise<void> {
    const { store, clock } = this.#parts;
    const { resource, timing } = this.#plan;
    const limitMs = timing.roundTripMs;
    const { sessionId } = session;
    // A grant that is still under way would arrive after this withdrawal, so the renewals repeat it.
    if (atStore === "unknown") session.withdrawLater(resource, attempt);
    await withLimit(clock, limitMs, "withdrawal", () =>
      store.withdraw({ sessionId, resource, attempt, limitMs }),
    ).catch(() => session.withdrawLater(resource, attempt));
  }

  /** Waits before the next try after a failure; throws when no further try is due. */
  async #backOff(error: unknown): Promise<void> {
    this.#throwIfOver();
    if (!isUnavailable(error)) throw error;
    this.#unavailable = error;
    this.#failures += 1;
    if (this.#wish.waitMs === undefined && this.#failures >= TRIES_WITHOUT_WAIT) throw error;
    const delayMs = backoffMs(UNAVAILABLE_BACKOFF, this.#failures, this.#parts.random.next());
    await pause(this.#parts.clock, delayMs, this.#ending());
  }

  #timedOut(): Error {
    const { resource } = this.#plan;
    const { waitMs = 0 } = this.#wish;
    return this.#unavailable ?? stayedBusy(this.#parts, { resource, waitMs, heldBy: this.#heldBy });
  }
}

/** The error for a resource that stayed busy. It tells an acquirer that waits for its own lease. */
export function stayedBusy(
  { sessions, holderId }: Pick<AcquireParts, "sessions" | "holderId">,
  facts: { resource: string; waitMs: number; heldBy: string | undefined },
): AcquireTimeoutError {
  if (sessions.hold(facts.resource))
    return AcquireTimeoutError.from({ ...facts, heldBy: holderId, whom: "self" });
  return AcquireTimeoutError.from({
    ...facts,
    whom: facts.heldBy === holderId ? "namesake" : "other",
  });
}

function isUnavailable(error: unknown): error is StoreUnavailableError {
  return isTenureError(error, "STORE_UNAVAILABLE");
}
