// A lease that this process has acquired. core/lease-machine.ts decides what may happen to it, and
// its session says how long it may act. check() compares the clock with the deadline at the moment
// of use; it does not rely on a timer having fired.

import type { Clock } from "../async/clock.ts";
import { isInsideWork, runUnder } from "../async/context.ts";
import { onLastingGuard } from "../async/lasting-guard.ts";
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
import {
  checkHandover,
  type Handover,
  type HandoverOptions,
  waitForSuccessor,
} from "./handover.ts";
import { type Lease, RELEASE_OPTIONS, type ReleaseOptions, type ReleaseResult } from "./lease.ts";
import { sendRelease } from "./send-release.ts";
import type { Session, SessionMember } from "./session.ts";

export interface HeldLeaseParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly session: Session;
  readonly resource: string;
  readonly token: bigint;
  readonly attempt: string;
  /** A request for this grant was never answered, so a copy of it may still reach the store. */
  readonly mayArriveAgain: boolean;
  readonly actsInDoubt: boolean;
  /** Called when the lease is used with a guard whose tokens outlive this process. */
  readonly onLastingGuard: (() => void) | undefined;
}

export class HeldLease implements Lease, SessionMember {
  readonly resource: string;
  readonly token: bigint;

  readonly #parts: HeldLeaseParts;
  readonly #session: Session;
  readonly #clock: Clock;
  #state: LeaseState = HELD;
  #acting = true;
  #controller: AbortController | undefined;
  #wanted: AbortController | undefined;
  #isWanted = false;
  #loss: Loss | undefined;
  #lostError: LeaseLostError | undefined;
  #release: Promise<ReleaseResult> | undefined;
  #finish: ((result: ReleaseResult) => void) | undefined;
  /** Called when the release has been sent to the store. */
  #onSent: (() => void) | undefined;
  /** The holder to which the release hands the resource off, if it waits. */
  #preferred: string | undefined;

  constructor(parts: HeldLeaseParts) {
    this.#parts = parts;
    this.#session = parts.session;
    this.#clock = parts.clock;
    this.resource = parts.resource;
    this.token = parts.token;
    if (parts.onLastingGuard !== undefined) onLastingGuard(this, parts.onLastingGuard);
    parts.session.join(this);
  }

  get signal(): AbortSignal {
    // Created on demand: a process may hold ten thousand leases, and most never need a signal.
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      this.#session.checkDeadline(this.#clock.now());
      if (this.#loss !== undefined) this.#controller.abort(this.#toError(this.#loss));
    }
    return this.#controller.signal;
  }

  get wanted(): AbortSignal {
    if (this.#wanted === undefined) {
      this.#wanted = new AbortController();
      if (this.#isWanted) this.#wanted.abort(toWantedReason(this.resource));
    }
    return this.#wanted.signal;
  }

  get safeUntil(): number {
    return this.#session.safeUntil;
  }

  /** Costs two clock reads and allocates nothing besides the two numbers read. */
  check(): bigint {
    // The clock is read before the deadline: reading it may detect a jump, which ends the session.
    const now = this.#clock.now();
    const until = this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.confirmedUntil;
    if (this.#acting && now < until) return this.token;
    throw this.#toRefusal(now);
  }

  async confirmed(): Promise<void> {
    this.#session.checkDeadline(this.#clock.now());
    if (this.#loss !== undefined) throw this.#toError(this.#loss);
    try {
      await this.#session.confirmed();
    } catch (cause) {
      throw this.#loss === undefined ? cause : this.#toError(this.#loss);
    }
  }

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
      this.#session.checkDeadline(this.#clock.now());
      if (this.#loss !== undefined) resolve("lost");
      else this.#feed({ type: "drain" });
    });
    this.#limitDrain(drainMs);
    return this.#release;
  }

  /**
   * Releases, and resolves as soon as the release has been sent. If its answer gets lost, renewals
   * repeat it.
   */
  async startRelease(): Promise<void> {
    const released = this.release();
    if (this.#state.kind === "releasing" || this.#state.kind === "ended") return;
    await new Promise<void>((resolve, reject) => {
      this.#onSent = resolve;
      released.then(() => resolve(), reject);
    });
  }

  handover(options: HandoverOptions): Promise<Handover> {
    return this.handoverTo(undefined, options);
  }

  /** As handover(). The store hands off to a waiter of `preferred`, if there is one. */
  async handoverTo(preferred: string | undefined, options: HandoverOptions): Promise<Handover> {
    checkHandover(options);
    const { waitMs } = options;
    this.#preferred = preferred;
    const release = await this.release({ drainMs: options.drainMs });
    const { store, clock } = this.#parts;
    return waitForSuccessor({ store, clock, lease: this, release, waitMs, preferred });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** The session reports that this lease has ended. */
  lose(reason: LossReason, detail: string): void {
    this.#feed({ type: "lost", reason, detail });
  }

  /** The session reports that another attempt waits for the resource. */
  want(): void {
    if (this.#isWanted) return;
    this.#isWanted = true;
    this.#wanted?.abort(toWantedReason(this.resource));
  }

  /**
   * The store has granted the resource to this session again. Either the release of this lease took
   * effect and its answer is still on the way, or the lease was revoked.
   */
  supersede(): void {
    if (this.#state.kind !== "releasing") {
      this.lose("revoked", "a third party revoked it");
      return;
    }
    this.#finish?.("released");
    this.#feed({ type: "releaseAnswered" });
  }

  /** Why the holder may not act. */
  #toRefusal(now: number): Error {
    this.#session.checkDeadline(now);
    if (this.#loss !== undefined) return this.#toError(this.#loss);
    if (!this.#acting) return this.#toError(this.#toLoss("released", "it is being released"));
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
        this.#loss ??= this.#toLoss(command.reason, command.detail);
        this.#controller?.abort(this.#toError(this.#loss));
        return;
      case "release":
        this.#sendRelease();
        return;
      case "finish":
        this.#session.leave(this);
        // A late copy of the request would be granted after this lease has ended. Renewals
        // withdraw it.
        if (this.#parts.mayArriveAgain)
          this.#session.withdrawOnRenewal(this.resource, this.#parts.attempt);
        // Has no effect if #finish was called with another result before.
        this.#finish?.("lost");
    }
  }

  #sendRelease(): void {
    this.#onSent?.();
    void sendRelease(this.#parts, this.#preferred).then((result) => {
      this.#finish?.(this.#state.kind === "ended" ? "lost" : result);
      this.#feed({ type: "releaseAnswered" });
    });
  }

  #limitDrain(drainMs: number): void {
    if (this.#state.kind !== "draining" || drainMs === Number.POSITIVE_INFINITY) return;
    const limit = (): void => {
      // Renewals do not extend this deadline: it is how long the work has to stop after its signal
      // has aborted. Work that is still running then is reported as an overrun.
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

  #toLoss(reason: LossReason, detail: string): Loss {
    const { confirmedAt, doubtCause } = this.#session;
    return { reason, detail, confirmedAt, cause: doubtCause };
  }

  /** The same error every time. Created on demand, because most leases end without needing it. */
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

function toWantedReason(resource: string): DOMException {
  return new DOMException(`Another caller waits for "${resource}".`, "AbortError");
}

function waitsForItself(): InvalidArgumentError {
  return new InvalidArgumentError(
    "release() was called inside run() or withLease() of the same lease: it would wait for itself. " +
      "Return from the work instead, or give drainMs.",
  );
}
