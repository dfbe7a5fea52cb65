// Stands between the lease and the command: SIGTERM when the deadline comes near without a renewal, SIGKILL before it, and at
// once when the lease is lost. It looks at the clock, not at having been called: a process that was frozen finds out with its
// first step. What it began it carries through, also when a renewal gets through after all: the command has been told.

import type { Clock, Timer } from "../../async/clock.ts";
import type { Lease } from "../../holder/lease.ts";
import type { ChildGroup } from "./group.ts";

export interface EnforcerParts {
  readonly group: Pick<ChildGroup, "signal">;
  readonly lease: Pick<Lease, "signal" | "safeUntil">;
  readonly clock: Clock;
  /** From SIGTERM to SIGKILL. */
  readonly killAfterMs: number;
}

type State =
  | { readonly kind: "watching" }
  | { readonly kind: "ending"; readonly since: number }
  | { readonly kind: "killed" };

/** A killed process is gone within this, unless it is stuck in the kernel. */
const DEATH_MS = 5_000;
/** SIGKILL comes so much before the deadline: for late timers and the way through the kernel. */
const LEAD_MIN_MS = 10;
const LEAD_MAX_MS = 100;
const LEAD_SHARE = 10;

export class DeadlineEnforcer {
  /** Why the lease counts as lost, if it does. */
  lost: string | undefined;
  /** Resolves when the group was killed and did not die. */
  readonly gaveUp: Promise<void>;
  readonly #parts: EnforcerParts;
  readonly #leadMs: number;
  /** So long before the deadline nobody waits for a renewal any more. */
  readonly #noticeMs: number;
  readonly #onLoss = (): void => this.look();
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
    this.look();
  }

  get hasKilled(): boolean {
    return this.#state.kind === "killed";
  }

  /** What is due now is done now, and the next look is arranged. */
  look(): void {
    if (this.#state.kind === "killed") return;
    const { clock, lease, killAfterMs } = this.#parts;
    const noticeMs = this.#noticeMs;
    // The clock first: reading it may find that the machine slept, which ends the lease.
    const now = clock.now();
    const leftMs = lease.signal.aborted ? 0 : lease.safeUntil - now;
    if (leftMs <= noticeMs) this.#lose();
    if (this.#state.kind === "watching" && leftMs > this.#leadMs && leftMs <= noticeMs)
      this.#terminate(now);
    const dueInMs =
      this.#state.kind === "watching"
        ? leftMs - noticeMs
        : Math.min(this.#state.since + killAfterMs - now, leftMs - this.#leadMs);
    if (dueInMs <= 0) this.#kill();
    else this.#lookAfter(dueInMs);
  }

  /** Somebody wants the group to end while the lease is held: SIGTERM, and SIGKILL `killAfterMs` later. */
  end(): void {
    if (this.#state.kind === "watching") this.#terminate(this.#parts.clock.now());
    this.look();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#parts.lease.signal.removeEventListener("abort", this.#onLoss);
    this.#state = { kind: "killed" };
  }

  #lose(): void {
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

  #lookAfter(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#parts.clock.setTimer(() => this.look(), delayMs, { keepAlive: true });
  }
}
