// The events of a candidate, for logs, metrics and alerts. No decision depends on them.

import type { LossReason } from "../core/errors.ts";
import type { ReleaseResult } from "../holder/lease.ts";

/** What happens to a candidate, as passed to `onEvent`. */
export type ElectionEvent =
  /** `prepare` threw. This candidate does not campaign; `prepare` runs again after `retryInMs`. */
  | { readonly type: "prepareFailed"; readonly error: unknown; readonly retryInMs: number }
  /** Prepared, and in the queue of the store. */
  | { readonly type: "campaigning" }
  /** The store or a guard rejected a request or is unavailable. Retried after `retryInMs`. */
  | { readonly type: "campaignFailed"; readonly error: unknown; readonly retryInMs: number }
  /** This candidate leads. `lead` begins. */
  | { readonly type: "elected"; readonly term: bigint }
  /** `lead` threw while it held the lease. The lease is released; retried after `retryInMs`. */
  | {
      readonly type: "leadFailed";
      readonly term: bigint;
      readonly error: unknown;
      readonly retryInMs: number;
    }
  /** A planned end: `lead` returned, or `resign()` or `stop()` was called. */
  | { readonly type: "resigned"; readonly term: bigint; readonly release: ReleaseResult }
  /** Leadership was lost. The signal of the lease has notified `lead`. */
  | { readonly type: "lost"; readonly term: bigint; readonly reason: LossReason }
  /**
   * `lead` still runs although another candidate may lead by now. Guards refuse its writes; its
   * other actions are not prevented. This candidate does not campaign until `lead` has settled.
   */
  | { readonly type: "overran"; readonly term: bigint }
  /** The `lead` that overran has settled, `lateMs` after the `overran` event. */
  | { readonly type: "settled"; readonly term: bigint; readonly lateMs: number }
  /** The election has stopped for good. */
  | { readonly type: "stopped" };

/** The warning for a program without `onEvent`; undefined for events that are not failures. */
export function toWarning(event: ElectionEvent): string | undefined {
  switch (event.type) {
    case "prepareFailed":
      return "prepare failed, so this candidate does not campaign for now";
    case "campaignFailed":
      return "the store or a guard cannot be used for now";
    case "leadFailed":
      return `lead failed in term ${event.term}, and leadership was given up`;
    case "overran":
      return `lead still runs although term ${event.term} is over and another may lead`;
    default:
      return undefined;
  }
}

export function findError(event: ElectionEvent): unknown {
  return "error" in event ? event.error : undefined;
}
