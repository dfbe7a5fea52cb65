// The states of one lease, as a pure function of state and event. The session machine handles
// renewal; this one handles work in flight, drain and release. Its main rule: the release is sent
// to the store only after all work has settled (S6). `holder/held-lease.ts` carries out the
// commands.
//
//   held --drain--> draining --work settled--> releasing --answered--> ended
//     |                | time limit passed: the signal aborts, and we still wait for the work
//     |                v
//     |             overrun --work settled--> releasing
//     +---- session ended or lease revoked (from any of these) ----> ended

import { assertNever } from "./assert.ts";
import type { LossReason } from "./errors.ts";

export type LeaseState =
  | { readonly kind: "held"; readonly work: number }
  | { readonly kind: "draining"; readonly work: number }
  | { readonly kind: "overrun"; readonly work: number }
  | { readonly kind: "releasing" }
  | { readonly kind: "ended"; readonly reason: LossReason; readonly detail: string };

export type LeaseEvent =
  | { readonly type: "workStarted" }
  | { readonly type: "workSettled" }
  | { readonly type: "drain" }
  /** The caller's time limit for the drain has passed. */
  | { readonly type: "drainLimit" }
  | { readonly type: "lost"; readonly reason: LossReason; readonly detail: string }
  | { readonly type: "releaseAnswered" };

export type LeaseCommand =
  /** Abort the lease's signal: all work under the lease must stop. */
  | { readonly do: "abort"; readonly reason: LossReason; readonly detail: string }
  | { readonly do: "release" }
  /** Resolve the promises that wait for the end of this lease. */
  | { readonly do: "finish" };

export interface LeaseStep {
  readonly state: LeaseState;
  readonly commands: readonly LeaseCommand[];
}

const NOTHING: readonly LeaseCommand[] = [];
export const HELD: LeaseState = { kind: "held", work: 0 };
/** Nearly every lease ends with these two steps, so they are allocated once. */
const RELEASE: LeaseStep = { state: { kind: "releasing" }, commands: [{ do: "release" }] };
const RELEASED: LeaseStep = end("released", "released by its holder");

export function stepLease(state: LeaseState, event: LeaseEvent): LeaseStep {
  if (state.kind === "ended") return { state, commands: NOTHING };
  switch (event.type) {
    case "workStarted":
      // In other states `holder/held-lease.ts` has already rejected the work with a reason.
      if (state.kind !== "held") return { state, commands: NOTHING };
      return { state: { kind: "held", work: state.work + 1 }, commands: NOTHING };
    case "workSettled":
      return workSettled(state);
    case "drain":
      if (state.kind !== "held") return { state, commands: NOTHING };
      return state.work === 0
        ? RELEASE
        : { state: { kind: "draining", work: state.work }, commands: NOTHING };
    case "drainLimit":
      if (state.kind !== "draining") return { state, commands: NOTHING };
      return {
        state: { kind: "overrun", work: state.work },
        commands: [{ do: "abort", reason: "released", detail: "its work outlived the drain" }],
      };
    case "lost":
      return end(event.reason, event.detail);
    case "releaseAnswered":
      return state.kind === "releasing" ? RELEASED : { state, commands: NOTHING };
    default:
      return assertNever(event);
  }
}

/** Whether the token may be used now. Work in flight may still use it while the lease drains. */
export function mayAct(state: LeaseState): boolean {
  return state.kind === "held" || state.kind === "draining";
}

function workSettled(state: Exclude<LeaseState, { kind: "ended" }>): LeaseStep {
  switch (state.kind) {
    case "held":
      return { state: { kind: "held", work: Math.max(0, state.work - 1) }, commands: NOTHING };
    case "draining":
    case "overrun":
      return state.work <= 1
        ? RELEASE
        : { state: { kind: state.kind, work: state.work - 1 }, commands: NOTHING };
    case "releasing":
      return { state, commands: NOTHING };
    default:
      return assertNever(state);
  }
}

function end(reason: LossReason, detail: string): LeaseStep {
  return {
    state: { kind: "ended", reason, detail },
    commands: [{ do: "abort", reason, detail }, { do: "finish" }],
  };
}
