// Checks handoff (src/stores/queue-policy.ts). A resource goes to the
// waiter that has waited longest (FIFO). It is granted in the step that frees it, and at once when
// its holder expires (L1, L2). In the calm phase, the waiter acts on the grant after one renewal at
// the latest (L2). A waiter is left out of account while its session may be quiet.

import { type Plan, renewEveryMs, settlingMs } from "../faults/plan.ts";
import { CALM_MAX_MS } from "../world/network.ts";
import type { TraceEvent } from "../world/trace.ts";
import type { Checker, MakeChecker, Report } from "./checker.ts";
import type { Facts } from "./facts.ts";
import { type Waiter, Waiters } from "./waiters.ts";

/** Clocks are off by up to 5 %. */
const CLOCK_ERROR = 0.06;
/** Errors of converting instants between the store's clock and true time stay below this. */
const ROUNDING_MS = 0.01;
/** A check that the holder has expired takes a round trip, or a commit and the lock for it. */
const CHECK_MS = 4 * CALM_MAX_MS;
/** A check that failed because the connection was down is repeated after this time. */
const REPEAT_MS = 50;

export const handsOffInOrder: MakeChecker = (plan) =>
  withWaiters((event, { waiters, facts, report }) => {
    if (event.kind !== "storeGranted" || plan.isBeyondBounds) return;
    const { resource, attempt, at, token } = event;
    const taker = waiters.get(resource, attempt);
    if (taker === undefined) return;
    for (const waiter of waiters.waitersFor(resource))
      if (waiter.queuedAt < taker.askedAt && isCertain(waiter, plan, facts, at))
        report(
          "FIFO",
          `${resource}: ${token} went to ${taker.who}, although ${waiter.who} had waited longer`,
        );
  });

export const handsOffAtOnce: MakeChecker = (plan) => {
  let isOver = false;
  /** Grants to sessions that may have been quiet, so that they may expire very soon. */
  const short = new Set<string>();
  return withWaiters((event, { waiters, facts, report }) => {
    if (plan.isBeyondBounds || isOver) return;
    if (event.kind === "storeGranted" && mayBeQuiet(event.session, plan, facts, event.at))
      short.add(toKey(event));
    for (const resource of waiters.resources()) {
      const newest = facts.newest(resource);
      if (newest === undefined || facts.isHeldAtStore(newest, event.at)) continue;
      const hasExpired = newest.freedAs === undefined;
      const freeSince = waiters.freeSince(newest, facts);
      // During the faults, the store itself may be stopped when a session expires.
      if (hasExpired && freeSince < plan.faultyMs) continue;
      // Waiters look at the holder's expiry when they renew their sessions.
      const renewalMs = short.has(toKey(newest)) ? (1 + CLOCK_ERROR) * renewEveryMs(plan) : 0;
      const expiryMs = plan.clockErrorMs + plan.storeLagMs + CHECK_MS + renewalMs;
      const limitMs = hasExpired ? expiryMs : ROUNDING_MS;
      for (const waiter of waiters.waitersFor(resource)) {
        if (waiter.queuedAt >= freeSince || !isCertain(waiter, plan, facts, event.at)) continue;
        // A waiter that was quiet is granted the resource when its session is renewed.
        // One whose connection is down checks the holder after it has connected again.
        const connectedFrom = waiters.connectedFrom(waiter);
        const isLate = hasExpired && connectedFrom > freeSince;
        const connectedAt = isLate ? connectedFrom + (1 + CLOCK_ERROR) * REPEAT_MS : freeSince;
        const since = Math.max(freeSince, facts.session(waiter.session).keptAt, connectedAt);
        if (event.at - since <= limitMs) continue;
        isOver = true;
        const how = hasExpired ? "expired" : "was freed";
        report(
          hasExpired ? "L1" : "L2",
          `${resource} ${how}, and ${waiter.who} still waits for it`,
        );
        return;
      }
    }
  });
};

/** A program that waits learns of its grant from a notification or from its next renewal. */
export const handoffsReachWaiters: MakeChecker = (plan) => {
  const from = plan.faultyMs + settlingMs(plan);
  const withinMs = (1 + CLOCK_ERROR) * renewEveryMs(plan) + 8 * CALM_MAX_MS;
  const pending = new Map<string, { readonly waiter: Waiter; readonly at: number }>();
  return withWaiters((event, { waiters, facts, report }) => {
    if (plan.isBeyondBounds) return;
    for (const [name, { waiter, at }] of pending) {
      if (event.at - at <= withinMs) continue;
      pending.delete(name);
      if (!waiter.hasLeft) report("L2", `${waiter.who} was granted ${name} and does not know it`);
    }
    if ("resource" in event && "token" in event) {
      if (event.kind === "held" || event.kind === "storeFreed") pending.delete(toKey(event));
      const waiter =
        event.kind === "storeGranted" ? waiters.get(event.resource, event.attempt) : undefined;
      const isQueued = waiter !== undefined && waiter.queuedAt < event.at && event.at > from;
      if (isQueued && isCertain(waiter, plan, facts, event.at))
        pending.set(toKey(event), { waiter, at: event.at });
    }
    if (event.kind === "crashed" || event.kind === "closed" || event.kind === "evening")
      pending.clear();
  });
};

interface State {
  readonly waiters: Waiters;
  readonly facts: Facts;
  readonly report: Report;
}

/** Creates a checker that also sees the waiters, as they were before each event. */
function withWaiters(check: (event: TraceEvent, state: State) => void): Checker {
  const waiters = new Waiters();
  return {
    on(event, facts, report) {
      check(event, { waiters, facts, report });
      waiters.apply(event);
    },
  };
}

/** Whether the waiter is in the queue, alive, and not quiet by any clock. */
function isCertain({ hasLeft, session }: Waiter, plan: Plan, facts: Facts, at: number): boolean {
  const isAlive = facts.session(session).until > at + ROUNDING_MS;
  return !hasLeft && isAlive && !mayBeQuiet(session, plan, facts, at);
}

function mayBeQuiet(session: string, plan: Plan, facts: Facts, at: number): boolean {
  const { until, keptAt } = facts.session(session);
  // A store may have read its clock before it applied the renewal.
  const renewedAt = Math.min(keptAt, until - plan.ttlMs);
  return at - renewedAt >= (1 - CLOCK_ERROR) * (renewEveryMs(plan) + plan.roundTripMs);
}

function toKey(event: { readonly resource: string; readonly token: bigint }): string {
  return `${event.resource} ${event.token}`;
}
