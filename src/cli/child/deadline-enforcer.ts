// Stops the command before its lease expires. Sends SIGTERM when the deadline approaches without a
// renewal, then SIGKILL before the deadline. If the lease is lost, it sends SIGKILL immediately.
// Decisions use the clock rather than timer callbacks, so a process that was frozen acts correctly
// when it resumes. Once SIGTERM has been sent, a late renewal changes nothing, because the command
// is already terminating.

import type { Clock, Timer } from "../../async/clock.ts";
import type { Lease } from "../../holder/lease.ts";
import type { ChildGroup } from "./group.ts";

export interface EnforcerParts {
  readonly group: Pick<ChildGroup, "signal">;
  readonly lease: Pick<Lease, "signal" | "safeUntil">;
  readonly clock: Clock;
  /** The time between SIGTERM and SIGKILL. */
  readonly killAfterMs: number;
}

type State =
  | { readonly kind: "watching" }
  | { readonly kind: "ending"; readonly since: number }
  | { readonly kind: "killed" };

/** A killed process ends within this time, unless it is stuck in the kernel. */
const DEATH_MS = 5_000;
/** SIGKILL is sent this long before the deadline, to allow for late timers and signal delivery. */
const LEAD_MIN_MS = 10;
const LEAD_MAX_MS = 100;
const LEAD_SHARE = 10;

export class DeadlineEnforcer {
  /** Why the lease counts as lost. Undefined while it does not. */
  lost: string | undefined;
  /** Resolves if the group did not die after SIGKILL. */
  readonly gaveUp: Promise<void>;
  readonly #parts: EnforcerParts;
  readonly #leadMs: number;
  /** This long before the deadline we stop waiting for a renewal. */
  readonly #noticeMs: number;
  readonly #onLoss = (): void => this.enforce();
  #state: State = { kind: "watching" };
  #timer: Timer | undefined;
  #giveUp: () => void = () => undefined;

  constructor(parts: EnforcerParts) {
    this.#parts = parts;
    const leadMs = Math.min(LEAD_MAX_MS, parts.killAfterMs / LEAD_SHARE);
    this.#leadMs = Math.max(LEAD_MIN_MS, leadMs);
    this.#noticeMs = Math.max(this.#leadMs, parts.killAfterMs);
    this.gaveUp = new Promise((resolve) => {
      this.#giveUp = resolve;
    });
    parts.lease.signal.addEventListener("abort", this.#onLoss, { once: true });
    this.enforce();
  }

  get hasKilled(): boolean {
    return this.#state.kind === "killed";
  }

  /** Sends the signal that is due now, or sets a timer for the next one. */
  enforce(): void {
    if (this.#state.kind === "killed") return;
    const { clock, lease, killAfterMs } = this.#parts;
    const noticeMs = this.#noticeMs;
    // Read the clock first: it may detect that the machine was suspended, which aborts the lease.
    const now = clock.now();
    const leftMs = lease.signal.aborted ? 0 : lease.safeUntil - now;
    if (leftMs <= noticeMs) this.#recordLoss();
    if (this.#state.kind === "watching" && leftMs > this.#leadMs && leftMs <= noticeMs)
      this.#terminate(now);
    const dueInMs =
      this.#state.kind === "watching"
        ? leftMs - noticeMs
        : Math.min(this.#state.since + killAfterMs - now, leftMs - this.#leadMs);
    if (dueInMs <= 0) this.#kill();
    else this.#enforceAfter(dueInMs);
  }

  /** Ends the group although the lease is held: SIGTERM now, SIGKILL `killAfterMs` later. */
  end(): void {
    if (this.#state.kind === "watching") this.#terminate(this.#parts.clock.now());
    this.enforce();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#parts.lease.signal.removeEventListener("abort", this.#onLoss);
    this.#state = { kind: "killed" };
  }

  #recordLoss(): void {
    const { lease } = this.#parts;
    const reason: unknown = lease.signal.reason;
    this.lost ??=
      reason instanceof Error ? reason.message : "The store did not confirm the lease in time.";
  }

  #terminate(now: number): void {
    this.#state = { kind: "ending", since: now };
    this.#parts.group.signal("SIGTERM");
  }

  #kill(): void {
    this.#timer?.cancel();
    this.#state = { kind: "killed" };
    this.#parts.group.signal("SIGKILL");
    this.#timer = this.#parts.clock.setTimer(this.#giveUp, DEATH_MS, { keepAlive: true });
  }

  #enforceAfter(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#parts.clock.setTimer(() => this.enforce(), delayMs, { keepAlive: true });
  }
}
