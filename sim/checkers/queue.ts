// Checks waiting on stores without handoff; handoff.ts checks the others. At any time, a free
// resource goes to the waiter that has waited longest, at least during the head start (FIFO). In
// the calm phase, a waiter gets a released resource within two round trips (L2), and an expired one
// within the lag that the store states (L1).

import { HEAD_START_MS } from "../../src/stores/contract.ts";
import { renewEveryMs } from "../faults/plan.ts";
import { CALM_MAX_MS } from "../world/network.ts";
import type { TraceEvent } from "../world/trace.ts";
import type { Checker, MakeChecker, Report } from "./checker.ts";
import type { Facts, Grant } from "./facts.ts";
import { HANDOFF_STORES } from "./handoff.ts";
import { type Waiter, Waiters } from "./waiters.ts";

/**
 * Clocks are off by up to 5 %, and on some stores later waiters measure the head start by their own
 * clock.
 */
const CLOCK_ERROR = 0.06;
/**
 * In the calm phase: the wake-up and the grant request, and another round trip if the store has to
 * read first.
 */
const TWO_ROUND_TRIPS_MS = 4 * CALM_MAX_MS;
/** Expiry times are converted between two clock rates. */
const ROUNDING = 1.002;
/** Some stores count in whole milliseconds. */
const WHOLE_MS = 2;

/**
 * Stores that are checked for prompt grants. ZooKeeper is not, because it is late in a few runs
 * (docs/simulator.md).
 */
const PROMPT_STORES: ReadonlySet<string> = new Set(["redis", "postgres"]);
/**
 * How long it takes until the server has registered a waiter's subscription: one message on Redis.
 * The waiter then checks once more, which is one of the two round trips.
 */
const SUBSCRIBE_MS: ReadonlyMap<string, number> = new Map([["redis", CALM_MAX_MS]]);
/**
 * How many waiters at the head of the queue are notified of a change. If all of them are stuck, the
 * next one polls.
 */
const NOTIFIED_WAITERS: ReadonlyMap<string, number> = new Map([["redis", 3]]);
/**
 * How many waiters watch for the expiry of the holder. A later waiter learns of it with its next
 * renewal.
 */
const EXPIRY_WATCHERS: ReadonlyMap<string, number> = new Map([["postgres", 2]]);

export const firstComeFirstServed: MakeChecker = ({ isBeyondBounds, store }) =>
  withWaiters((event, waiters, facts, report) => {
    // Beyond the bounds, the clocks of later waiters may run too fast.
    if (isBeyondBounds || HANDOFF_STORES.has(store)) return;
    if (event.kind === "storePassedOver") checkSkippedWaiter(event, waiters, facts, report);
    if (event.kind !== "storeGranted") return;
    const { resource, attempt, at, token } = event;
    const before = facts.newest(resource);
    const taker = waiters.get(resource, attempt);
    if (before === undefined || before.token === token || taker === undefined) return;
    const freeMs = at - waiters.headStartSince(before, facts);
    if (freeMs >= (1 - CLOCK_ERROR) * HEAD_START_MS) return;
    for (const waiter of waiters.waitersFor(resource))
      if (waiter.queuedAt < taker.askedAt && isWaiting(waiter, facts, at))
        report(
          "FIFO",
          `${resource}: ${token} went to ${taker.who}, although ${waiter.who} had waited longer`,
        );
  });

/** On stores that skip a stuck waiter, each waiter has its head start from when it is first. */
function checkSkippedWaiter(
  event: PassedOver,
  waiters: Waiters,
  facts: Facts,
  report: Report,
): void {
  const { resource, attempt, at, isRevocation } = event;
  const before = facts.newest(resource);
  const waiter = waiters.get(resource, attempt);
  if (before === undefined || waiter === undefined || isRevocation) return;
  const firstSince = Math.max(waiters.freeSince(before, facts), waiters.lastSkippedAt(resource));
  if (at - firstSince < (1 - CLOCK_ERROR) * HEAD_START_MS)
    report("FIFO", `${resource}: ${waiter.who} was skipped before its head start was over`);
}

export const promptGrants: MakeChecker = (plan) => {
  const notified = NOTIFIED_WAITERS.get(plan.store) ?? Number.POSITIVE_INFINITY;
  const expiryWatchers = EXPIRY_WATCHERS.get(plan.store) ?? Number.POSITIVE_INFINITY;
  const subscribeMs = SUBSCRIBE_MS.get(plan.store) ?? 0;
  let lagMs = 0;
  const check = (at: number, grant: Grant, { waiters, facts, report }: State): void => {
    const { resource } = grant;
    const freeSince = waiters.freeSince(grant, facts);
    // A waiter whose session expired stays in the queue for as long as the store's lag.
    const all = [...waiters.waitersFor(resource)].filter(
      ({ session }) => facts.session(session).until + lagMs > freeSince,
    );
    // A waiter that began to wait during the faults may have lost its wake-up.
    const waiting = all.filter(
      (waiter) =>
        waiter.askedAt > plan.faultyMs &&
        waiter.queuedAt < freeSince &&
        isWaiting(waiter, facts, at),
    );
    const hasExpired = grant.freedAs === undefined;
    const notifiedAt = (waiter: Waiter): number =>
      Math.max(
        freeSince + waiters.missedNotificationMs(waiter.who, freeSince),
        waiters.notifiedFrom(waiter, subscribeMs),
      );
    for (const waiter of waiting) {
      // If two requests crossed, either waiter may be first in the queue.
      const ahead = all.filter((other) => other !== waiter && other.askedAt <= waiter.queuedAt);
      if (ahead.length >= notified) continue;
      const since = notifiedAt(waiter);
      const isReady = (other: Waiter): boolean =>
        waiting.includes(other) && notifiedAt(other) <= since;
      const limitMs =
        TWO_ROUND_TRIPS_MS +
        (ahead.every(isReady) ? 0 : (1 + CLOCK_ERROR) * HEAD_START_MS) +
        (hasExpired ? lagMs + plan.clockErrorMs : 0) +
        (hasExpired && waiters.countAheadAtArrival(waiter, resource, facts) >= expiryWatchers
          ? (1 + CLOCK_ERROR) * renewEveryMs(plan)
          : 0);
      const lateMs = at - since - limitMs;
      if (lateMs <= 0) continue;
      const wait = `${waiter.who} waited for ${resource}, which was free,`;
      report(hasExpired ? "L1" : "L2", `${wait} ${lateMs.toFixed(2)} ms too long`);
      return;
    }
  };
  let isShutdown = false;
  return withWaiters((event, waiters, facts, report) => {
    if (event.kind === "opened") lagMs = event.expiryLagMs;
    if (plan.isBeyondBounds || isShutdown || !PROMPT_STORES.has(plan.store)) return;
    const state = { waiters, facts, report };
    if (event.kind === "storeGranted") {
      const before = facts.newest(event.resource);
      if (before !== undefined && before.token !== event.token) check(event.at, before, state);
    }
    if (event.kind !== "evening") return;
    isShutdown = true;
    for (const resource of waiters.resources()) {
      const newest = facts.newest(resource);
      if (newest !== undefined && !facts.isHeldAtStore(newest, event.at))
        check(event.at, newest, state);
    }
  });
};

/** The store keeps a session for at most its ttl and the store's lag. */
export const sessionsExpire: MakeChecker = ({ ttlMs, storeLagMs, isBeyondBounds }) => ({
  on(event, facts, report) {
    if (event.kind !== "storeKept" || isBeyondBounds) return;
    const keptMs = event.until - event.at;
    // Sessions that are never renewed are the markers of once(), which have a ttl of their own.
    if (!facts.session(event.session).isRenewed) return;
    if (keptMs > ROUNDING * (ttlMs + storeLagMs) + WHOLE_MS)
      report(
        "L1",
        `the store keeps a session for ${keptMs.toFixed(0)} ms with a ttl of ${ttlMs} ms`,
      );
  },
});

type PassedOver = Extract<TraceEvent, { kind: "storePassedOver" }>;

interface State {
  readonly waiters: Waiters;
  readonly facts: Facts;
  readonly report: Report;
}

/** Creates a checker that also sees the waiters, as they were before each event. */
function withWaiters(
  check: (event: TraceEvent, waiters: Waiters, facts: Facts, report: Report) => void,
): Checker {
  const waiters = new Waiters();
  return {
    on(event, facts, report) {
      check(event, waiters, facts, report);
      waiters.apply(event);
    },
  };
}

/** Whether the waiter can still take the resource: it has not left, and its session is alive. */
function isWaiting({ hasLeft, session }: Waiter, facts: Facts, at: number): boolean {
  return !hasLeft && facts.session(session).until > at;
}
