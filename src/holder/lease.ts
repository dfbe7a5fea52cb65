// What the caller holds. It asks core/lease-machine.ts what may happen to it, and its session how long it may act.
// `check()` is the heart: a comparison of the clock with the deadline at the moment of use, no timer in between.

import type { Clock } from "../async/clock.ts";
import { isInsideWork, runUnder } from "../async/context.ts";
import { checkDelay } from "../async/waits.ts";
import {
  DrainingError,
  InvalidArgumentError,
  LeaseInDoubtError,
  LeaseLostError,
  type LossReason,
} from "../core/errors.ts";
import {
  HELD,
  type LeaseCommand,
  type LeaseEvent,
  type LeaseState,
  mayAct,
  stepLease,
} from "../core/lease-machine.ts";
import { checkOptionNames } from "../core/options.ts";
import type { Store } from "../stores/contract.ts";
import { giveBack } from "./give-back.ts";
import { checkHandover, type Handover, type HandoverOptions, untilSucceeded } from "./handover.ts";
import { RELEASE_OPTIONS } from "./option-names.ts";
import type { Session, SessionMember } from "./session.ts";

export interface LeaseParts {
  readonly store: Store;
  readonly clock: Clock;
  /** @internal */
  readonly session: Session;
  readonly resource: string;
  readonly token: bigint;
  readonly attempt: string;
  /** A request for this grant was never answered: a copy of it may still arrive. */
  readonly mayArriveAgain: boolean;
  readonly actsInDoubt: boolean;
  /** Called when the lease reaches a guard whose tokens outlive this process. */
  readonly onLastingGuard: (() => void) | undefined;
}

export interface ReleaseOptions {
  /**
   * How long work in flight may go on before `signal` aborts. Too small: work is cut short. Too large: a hanging task
   * keeps the resource busy. @default Infinity (as long as renewals succeed)
   */
  readonly drainMs?: number | undefined;
}

/**
 * How a release went. `released`: the resource is free. `lost`: the lease had ended before. `unconfirmed`: the store
 * did not answer; it is told again with the next renewal, and the ttl frees the resource at the latest. `overrun`:
 * work is still running although it was told to stop; the resource stays busy until it settles or the ttl is over.
 */
export type ReleaseResult = "released" | "lost" | "unconfirmed" | "overrun";

export class Lease implements SessionMember, AsyncDisposable {
  readonly resource: string;
  /** Fencing token: larger than that of every earlier grant of this resource. Hand it to guards. */
  readonly token: bigint;

  readonly #parts: LeaseParts;
  readonly #session: Session;
  readonly #clock: Clock;
  #state: LeaseState = HELD;
  #acting = true;
  #controller: AbortController | undefined;
  #loss: Loss | undefined;
  #lostError: LeaseLostError | undefined;
  #release: Promise<ReleaseResult> | undefined;
  #finish: ((result: ReleaseResult) => void) | undefined;

  constructor(parts: LeaseParts) {
    this.#parts = parts;
    this.#session = parts.session;
    this.#clock = parts.clock;
    this.resource = parts.resource;
    this.token = parts.token;
    parts.session.join(this);
  }

  /** Aborts when the lease ends, before anyone else can hold it; its reason is the LeaseLostError. */
  get signal(): AbortSignal {
    // Made on demand: most of ten thousand leases never need one.
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      this.#session.look(this.#clock.now());
      if (this.#loss !== undefined) this.#controller.abort(this.#toError(this.#loss));
    }
    return this.#controller.signal;
  }

  /** The instant on the monotonic clock (`performance.now()`) from which this lease may not be used, unless renewed. */
  get safeUntil(): number {
    return this.#session.safeUntil;
  }

  /**
   * The token, if the holder may act at this very moment; throws LeaseLostError or LeaseInDoubtError otherwise. Call it
   * right before every act. Costs two clock reads and allocates nothing besides the two numbers read.
   */
  check(): bigint {
    // The clock is read before the session's instant: reading it may find a jump, which ends the session.
    const now = this.#clock.now();
    const until = this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.settledUntil;
    if (this.#acting && now < until) return this.token;
    throw this.#whyNot(now);
  }

  /** Resolves when the lease is not in doubt; rejects with LeaseLostError when it is lost instead. */
  async confirmed(): Promise<void> {
    this.#session.look(this.#clock.now());
    if (this.#loss !== undefined) throw this.#toError(this.#loss);
    try {
      await this.#session.confirmed();
    } catch (cause) {
      throw this.#loss === undefined ? cause : this.#toError(this.#loss);
    }
  }

  /**
   * Runs work under this lease: it is counted as in flight, so that release waits for it, and `currentLease()` finds
   * the lease inside. Refuses to start when lost, in doubt or draining. Its result or error comes back unchanged.
   */
  async run<T>(work: (lease: Lease) => T | Promise<T>): Promise<T> {
    if (this.#state.kind === "draining" || this.#state.kind === "overrun") {
      throw DrainingError.from({ resource: this.resource });
    }
    this.check();
    this.#feed({ type: "workStarted" });
    try {
      return await runUnder(this, () => work(this));
    } finally {
      this.#feed({ type: "workSettled" });
    }
  }

  /**
   * Takes no new work, waits for work in flight, then frees the resource. Never hides the result of the work, and
   * rejects only for a bad option or when called by the very work it would wait for; again gives the same answer.
   */
  release(options: ReleaseOptions = {}): Promise<ReleaseResult> {
    let drainMs: number;
    try {
      checkOptionNames("release()", options, RELEASE_OPTIONS);
      drainMs = checkDelay("drainMs", options.drainMs ?? Number.POSITIVE_INFINITY);
    } catch (error) {
      return Promise.reject(error);
    }
    if (drainMs === Number.POSITIVE_INFINITY && isInsideWork(this))
      return Promise.reject(waitsForItself());
    this.#release ??= new Promise((resolve) => {
      this.#finish = resolve;
      this.#session.look(this.#clock.now());
      if (this.#loss !== undefined) resolve("lost");
      else this.#feed({ type: "drain" });
    });
    this.#limitDrain(drainMs);
    return this.#release;
  }

  /** Releases, then waits until a successor holds the resource. */
  async handover(options: HandoverOptions): Promise<Handover> {
    checkHandover(options);
    const result = await this.release({ drainMs: options.drainMs });
    const { store, clock } = this.#parts;
    return untilSucceeded({ store, clock, lease: this, result }, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** @internal Called by a guard whose tokens outlive this process (guards/guard.ts). */
  enterLastingGuard(): void {
    this.#parts.onLastingGuard?.();
  }

  /** @internal The session tells its leases of the end. */
  lose(reason: LossReason, detail: string): void {
    this.#feed({ type: "lost", reason, detail });
  }

  /** @internal Its own release took effect although the answer is still under way, or somebody revoked it. */
  supersede(): void {
    if (this.#state.kind !== "releasing") {
      this.lose("revoked", "a third party revoked it");
      return;
    }
    this.#finish?.("released");
    this.#feed({ type: "releaseAnswered" });
  }

  #whyNot(now: number): Error {
    this.#session.look(now);
    if (this.#loss !== undefined) return this.#toError(this.#loss);
    if (!this.#acting) return this.#toError(this.#lossFor("released", "it is being released"));
    return LeaseInDoubtError.from({ resource: this.resource, cause: this.#session.doubtCause });
  }

  #feed(event: LeaseEvent): void {
    const step = stepLease(this.#state, event);
    this.#state = step.state;
    this.#acting = mayAct(step.state);
    for (const command of step.commands) this.#carryOut(command);
  }

  #carryOut(command: LeaseCommand): void {
    switch (command.do) {
      case "abort":
        this.#loss ??= this.#lossFor(command.reason, command.detail);
        this.#controller?.abort(this.#toError(this.#loss));
        return;
      case "release":
        this.#giveBack();
        return;
      case "finish":
        this.#session.leave(this);
        // A copy that comes after others had the resource would be granted to nobody: the renewals give it back.
        if (this.#parts.mayArriveAgain)
          this.#session.withdrawLater(this.resource, this.#parts.attempt);
        this.#finish?.("lost");
    }
  }

  #giveBack(): void {
    void giveBack(this.#parts).then((result) => {
      this.#finish?.(this.#state.kind === "ended" ? "lost" : result);
      this.#feed({ type: "releaseAnswered" });
    });
  }

  #limitDrain(drainMs: number): void {
    if (this.#state.kind !== "draining" || drainMs === Number.POSITIVE_INFINITY) return;
    const limit = (): void => {
      // From here on no renewal helps: the work gets what was certain until now to stop in, and is then reported.
      const until = this.#session.safeUntil;
      this.#feed({ type: "drainLimit" });
      if (this.#state.kind !== "overrun") return;
      timer = this.#clock.setTimer(() => this.#finish?.("overrun"), until - this.#clock.now(), {
        keepAlive: true,
      });
    };
    let timer = this.#clock.setTimer(limit, drainMs, { keepAlive: true });
    void this.#release?.then(() => timer.cancel());
  }

  #lossFor(reason: LossReason, detail: string): Loss {
    const { confirmedAt, doubtCause } = this.#session;
    return { reason, detail, confirmedAt, cause: doubtCause };
  }

  /** The same error every time, made when somebody asks: most leases end by release and nobody does. */
  #toError(loss: Loss): LeaseLostError {
    const { resource, token } = this;
    this.#lostError ??= LeaseLostError.from({ resource, token, ...loss });
    return this.#lostError;
  }
}

interface Loss {
  readonly reason: LossReason;
  readonly detail: string;
  readonly confirmedAt: Date;
  readonly cause: unknown;
}

function waitsForItself(): InvalidArgumentError {
  return new InvalidArgumentError(
    "release() was called inside run() or withLease() of the same lease: it would wait for itself. " +
      "Return from the work instead, or give drainMs.",
  );
}
