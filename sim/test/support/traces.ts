// Builds small traces by hand for the tests of the checkers.
import { checkTrace } from "../../checkers/judge.ts";
import { createPlan, type Plan } from "../../faults/plan.ts";
import type { TraceEvent, TraceEventData } from "../../world/trace.ts";
import { CONTENDED } from "../../world/world.ts";

/** The memory store hands off. The tests of waiters on stores without handoff use SQLite. */
export const plan: Plan = {
  ...createPlan(1, "memory"),
  isBeyondBounds: false,
  roundTripMs: 100,
  ttlMs: 2_000,
};
export const CALM: number = plan.faultyMs;
export const NEVER: number = Number.NEGATIVE_INFINITY;

export type Step = readonly [at: number, who: string, data: TraceEventData];

/**
 * Returns the violations in a trace. Events that satisfy L1 for the contended resources are added.
 */
export function check(...steps: readonly Step[]): string[] {
  return checkWithPlan(plan, steps);
}

export function checkWithPlan(withPlan: Plan, steps: readonly Step[]): string[] {
  const alive: Step[] = CONTENDED.map((resource) => [CALM + 1, "p9", act({ resource, token: 9n })]);
  const grants: Step[] = CONTENDED.flatMap((resource): Step[] => [
    [CALM, "store", { kind: "storeKept", session: "alive", until: CALM + 9_000 }],
    [
      CALM,
      "store",
      { kind: "storeGranted", resource, token: 9n, session: "alive", attempt: "alive.1" },
    ],
  ]);
  const events = [...steps, ...grants, ...alive]
    .map(([at, who, data]): TraceEvent => ({ at, who, ...data }))
    .sort((one, other) => one.at - other.at);
  return checkTrace(withPlan, events).map(({ invariant, message }) => `${invariant}: ${message}`);
}

export const r = { resource: "r", token: 1n } as const;

export function act(
  over: Partial<Extract<TraceEventData, { kind: "acted" }>> = {},
): TraceEventData {
  const numbers = { now: 0, safeUntil: 1, safeUntilTrue: 0, actsInDoubt: false };
  return { kind: "acted", ...r, ...numbers, ...over };
}

export function grant(at: number, token: bigint, session = "a"): Step {
  const attempt = `${session}.${token}`;
  return [at, "store", { kind: "storeGranted", resource: "r", token, session, attempt }];
}

export function kept(at: number, until: number, session = "a"): Step {
  return [at, "store", { kind: "storeKept", session, until }];
}

export function freed(
  at: number,
  how: "released" | "withdrawn" | "revoked" | "sessionEnded",
): Step {
  return [at, "store", { kind: "storeFreed", ...r, how }];
}

export const given: Extract<TraceEventData, { kind: "held" }> = {
  kind: "held",
  ...r,
  withGuards: false,
  now: 0,
  safeUntil: 1,
};
export const held: Step = [5, "p1", given];

/** The end of a lease at a holder that was never stopped and whose clock never jumped. */
export function over(reason: string, of: { resource: string; token: bigint } = r): TraceEventData {
  return { kind: "over", ...of, reason, now: 0, steadySince: NEVER, jumpedAt: NEVER };
}

/** The answer to a renewal of session a, with an exact clock. */
export function renewal(outcome: "renewed" | "gone" | "failed", sentAt: number, now: number): Step {
  const ttlMs = outcome === "renewed" ? plan.ttlMs : 0;
  const sent = { sentAt, sentAtTrue: sentAt, now };
  return [now, "p1", { kind: "renewed", session: "a", ...sent, outcome, ttlMs }];
}

export function asked(at: number, what: string, who = "p1"): Step {
  return [at, who, { kind: "asked", what, session: "a", now: at }];
}

/** Session a holds r with token 1, and p1 has the lease. */
export const begin: Step[] = [kept(1, 2_000), grant(2, 1n), held];
