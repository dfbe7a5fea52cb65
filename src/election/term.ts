// One term of a leader: runs `lead` under the lease, asks it to stop on a resignation or a loss,
// and reports it if it still runs when another candidate may lead. The lease itself is released
// only after `lead` has settled (S6).

import type { Clock } from "../async/clock.ts";
import { LeaseLostError } from "../core/errors.ts";
import type { Handover } from "../holder/handover.ts";
import type { HeldLease } from "../holder/held-lease.ts";
import type { Lead } from "./election.ts";
import type { ElectionEvent } from "./events.ts";
import type { ResignPlan } from "./options.ts";

export interface TermParts {
  readonly lease: HeldLease;
  readonly lead: Lead;
  readonly clock: Clock;
  /** The shortest time between the end of the lease and the next leader. */
  readonly marginMs: number;
  readonly report: (event: ElectionEvent) => void;
}

/**
 * Why the term ended. `returned`: `lead` returned by itself. `failed`: it threw while it held the
 * lease. `over`: resign() was called, or the lease was lost.
 */
export type TermEnd = (
  | { readonly kind: "returned" }
  | { readonly kind: "over" }
  | { readonly kind: "failed"; readonly error: unknown }
) & {
  /** Settles when the release was answered and reported. Never rejects. */
  readonly released: Promise<void>;
};

export class Term {
  readonly lease: HeldLease;
  readonly #parts: TermParts;
  readonly #stopping = new AbortController();
  #handover: Promise<Handover> | undefined;

  constructor(parts: TermParts) {
    this.lease = parts.lease;
    this.#parts = parts;
  }

  /** Resolves when `lead` has settled, the release is sent, and a handover is finished. */
  async run(): Promise<TermEnd> {
    const { lease, report } = this.#parts;
    const { token: term } = lease;
    const watch = this.#watchLoss();
    const failure = await this.#lead();
    watch.settled();
    const loss = findLoss(lease);
    if (loss !== undefined) {
      report({ type: "lost", term, reason: loss.reason });
      await this.#handover;
      return { kind: "over", released: Promise.resolve() };
    }
    const handover = this.#handover;
    if (handover === undefined) await lease.startRelease();
    else await handover;
    const released = lease.release().then((release) => {
      if (failure === undefined) report({ type: "resigned", term, release });
    });
    if (failure !== undefined) return { kind: "failed", error: failure.error, released };
    return { kind: handover === undefined ? "returned" : "over", released };
  }

  /** Asks `lead` to stop, and hands over when it has. Further calls get the answer of the first. */
  resign({ preferred, ...options }: ResignPlan): Promise<Handover> {
    this.#handover ??= this.lease.handoverTo(preferred, options);
    // After the drain has begun: code of `lead` that reacts to the signal cannot start new work.
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

  /** When the lease ends, asks `lead` to stop; reports it if it runs until another may lead. */
  #watchLoss(): { settled(): void } {
    const { lease, clock, marginMs, report } = this.#parts;
    const { token: term, signal } = lease;
    let overranAt: number | undefined;
    const overran = (): void => {
      overranAt = clock.now();
      report({ type: "overran", term });
    };
    const onEnd = (): void => {
      this.#stopping.abort(signal.reason);
      // After a drain that overran, the lease remains until its deadline. A lost lease has ended:
      // the session of a revoked one continues, so its deadline says nothing.
      const isLost = findLoss(lease) !== undefined;
      const leftMs = isLost ? 0 : Math.max(0, lease.safeUntil - clock.now());
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
          report({ type: "settled", term, lateMs: clock.now() - overranAt });
      },
    };
  }
}

/** Why the lease was lost; undefined while it is held, and if its holder released it. */
function findLoss(lease: HeldLease): LeaseLostError | undefined {
  if (!lease.signal.aborted) return undefined;
  const { reason } = lease.signal;
  return reason instanceof LeaseLostError && reason.reason !== "released" ? reason : undefined;
}
