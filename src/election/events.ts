// What happens to a candidate, told as it happens: for logs, metrics and alerts. Nothing here decides anything.

import type { LossReason } from "../core/errors.ts";
import type { ReleaseResult } from "../holder/lease.ts";

export type ElectionEvent =
  /** `prepare` threw: this candidate is not ready and does not campaign. It is tried again after `retryInMs`. */
  | { readonly type: "prepareFailed"; readonly error: unknown; readonly retryInMs: number }
  /** Ready, and in the queue. */
  | { readonly type: "campaigning" }
  /** The store or a guard refused or could not be used. It is tried again after `retryInMs`. */
  | { readonly type: "campaignFailed"; readonly error: unknown; readonly retryInMs: number }
  /** Had the lease and gave it up before it led, because the leader before wished for another. Once for each wish. */
  | { readonly type: "yielded"; readonly to: string }
  | { readonly type: "elected"; readonly term: bigint }
  /** `lead` threw while it held the lease. The lease is given up, and the next campaign begins after `retryInMs`. */
  | {
      readonly type: "leadFailed";
      readonly term: bigint;
      readonly error: unknown;
      readonly retryInMs: number;
    }
  /** Given up as planned: `lead` returned, or `resign()` or `stop()` was called. */
  | { readonly type: "resigned"; readonly term: bigint; readonly release: ReleaseResult }
  /** The store could not be told who is preferred: the first in the queue leads next. */
  | { readonly type: "preferenceFailed"; readonly error: unknown }
  /** Not leader any more, without having wished it. `lead` was told by the lease's signal. */
  | { readonly type: "lost"; readonly term: bigint; readonly reason: LossReason }
  /**
   * `lead` still runs although another may lead by now. What it writes through guards is refused; anything else it does
   * is not. This candidate stays out of the race until `lead` has settled.
   */
  | { readonly type: "overran"; readonly term: bigint }
  /** The `lead` that overran has settled, so long after it should have. */
  | { readonly type: "settled"; readonly term: bigint; readonly lateMs: number }
  | { readonly type: "stopped" };

/** What somebody who does not listen should still see. */
export function warningOf(event: ElectionEvent): string | undefined {
  switch (event.type) {
    case "prepareFailed":
      return "prepare failed, so this candidate does not campaign for now";
    case "campaignFailed":
      return "the store or a guard cannot be used for now";
    case "leadFailed":
      return `lead failed in term ${event.term}, and leadership was given up`;
    case "preferenceFailed":
      return "the preferred successor could not be made known, so the first in the queue leads next";
    case "overran":
      return `lead still runs although term ${event.term} is over and another may lead`;
    default:
      return undefined;
  }
}

export function errorOf(event: ElectionEvent): unknown {
  return "error" in event ? event.error : undefined;
}
