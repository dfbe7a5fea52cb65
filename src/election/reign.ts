// One reign: `lead` runs under the lease from here, is told to stop when somebody wants it to, and is watched when it
// should have stopped. The lease does the rest: it is released only after `lead` has settled (S6).

import type { Clock } from "../async/clock.ts";
import { LeaseLostError } from "../core/errors.ts";
import type { Handover, HandoverOptions } from "../holder/handover.ts";
import type { Lease } from "../holder/lease.ts";
import type { ElectionEvent } from "./events.ts";

/**
 * Runs while leading. `stopping` aborts when it should come to an end: on `resign()` and `stop()`, with the lease still
 * held until it returns, and on loss. `lease.signal` aborts when the lease is over. Returning resigns.
 */
export type Lead = (lease: Lease, stopping: AbortSignal) => unknown;

export interface ReignParts {
  readonly lease: Lease;
  readonly lead: Lead;
  readonly clock: Clock;
  /** How long after the end of the lease another can lead at the earliest. */
  readonly marginMs: number;
  readonly tell: (event: ElectionEvent) => void;
}

/**
 * Why it ended. `returned`: `lead` came back of its own accord. `failed`: it threw although it still held the lease.
 * `over`: somebody resigned for it, or the lease was lost.
 */
export type ReignEnd =
  | { readonly kind: "returned" }
  | { readonly kind: "over" }
  | { readonly kind: "failed"; readonly error: unknown };

export class Reign {
  readonly lease: Lease;
  readonly #parts: ReignParts;
  readonly #stopping = new AbortController();
  #handover: Promise<Handover> | undefined;

  constructor(parts: ReignParts) {
    this.lease = parts.lease;
    this.#parts = parts;
  }

  /** Resolves when `lead` has settled and the lease is given back, and where somebody resigned, when that is through. */
  async run(): Promise<ReignEnd> {
    const { lease, tell } = this.#parts;
    const { token: term } = lease;
    const watch = this.#watchLoss();
    const failure = await this.#lead();
    watch.settled();
    const loss = lossOf(lease);
    if (loss !== undefined) {
      tell({ type: "lost", term, reason: loss.reason });
      await this.#handover;
      return { kind: "over" };
    }
    const handover = this.#handover;
    const release = handover === undefined ? await lease.release() : (await handover).release;
    if (failure !== undefined) return { kind: "failed", error: failure.error };
    tell({ type: "resigned", term, release });
    return { kind: handover === undefined ? "returned" : "over" };
  }

  /** Asks `lead` to stop, and hands over when it has. The second call gets the answer of the first. */
  resign(options: HandoverOptions): Promise<Handover> {
    this.#handover ??= this.lease.handover(options);
    // Told behind the drain, so that nothing that `lead` does in its last turn is new work.
    this.#stopping.abort();
    return this.#handover;
  }

  async #lead(): Promise<{ readonly error: unknown } | undefined> {
    const { lease, lead } = this.#parts;
    try {
      await lease.run(async () => lead(lease, this.#stopping.signal));
      return undefined;
    } catch (error) {
      return { error };
    }
  }

  /** From the end of the lease: `lead` is told at once, and reported if it has not settled when another may lead. */
  #watchLoss(): { settled(): void } {
    const { lease, clock, marginMs, tell } = this.#parts;
    const { token: term, signal } = lease;
    let overranAt: number | undefined;
    const overran = (): void => {
      overranAt = clock.now();
      tell({ type: "overran", term });
    };
    const onEnd = (): void => {
      this.#stopping.abort(signal.reason);
      // A drain that ran over leaves the lease as it is until its deadline; any other end is the deadline.
      const leftMs = Math.max(0, lease.safeUntil - clock.now());
      timer = clock.setTimer(overran, leftMs + marginMs);
    };
    let timer: { cancel(): void } | undefined;
    if (signal.aborted) onEnd();
    else signal.addEventListener("abort", onEnd, { once: true });
    return {
      settled: () => {
        signal.removeEventListener("abort", onEnd);
        timer?.cancel();
        if (overranAt !== undefined)
          tell({ type: "settled", term, lateMs: clock.now() - overranAt });
      },
    };
  }
}

/** How the lease was lost against its holder's will; undefined while it is held, and when it was given back. */
function lossOf(lease: Lease): LeaseLostError | undefined {
  if (!lease.signal.aborted) return undefined;
  const { reason } = lease.signal;
  return reason instanceof LeaseLostError && reason.reason !== "released" ? reason : undefined;
}
