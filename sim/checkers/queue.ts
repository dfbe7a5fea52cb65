// A free resource goes to whoever waited longest, and soon: first come, first served within the head start (at any time of the
// day), in the calm after a release within two round trips (L2), and after an expiry within the lag that the store states (L1).

import { HEAD_START_MS } from "../../src/stores/contract.ts";
import { renewEveryMs } from "../faults/plan.ts";
import { CALM_MAX_MS } from "../world/network.ts";
import type { Traced } from "../world/trace.ts";
import type { Checker, MakeChecker, Report } from "./checker.ts";
import type { Facts, Grant } from "./facts.ts";
import { type Waiter, Waiters } from "./waiters.ts";

/** Clocks are up to five in a hundred off, on stores where those behind keep away by their own clock. */
const CLOCKS = 0.06;
/** In the calm: the wake-up, the request behind it, and as much again where the store is asked why. */
const TWO_ROUND_TRIPS_MS = 4 * CALM_MAX_MS;
/** The kept time of a session goes through two rates and back. */
const ROUNDING = 1.002;
/** On stores that count in whole milliseconds, from one to the next. */
const WHOLE_MS = 2;

/** ZooKeeper is not judged yet but for the order: there are days on which it does not keep to the rest (docs/simulator.md). */
const PROMPT: ReadonlySet<string> = new Set(["memory", "sqlite", "etcd", "redis", "postgres"]);
/**
 * Where a waiter listens by itself, so long it takes at most until the server knows of it: on Redis a message; on etcd a look, and
 * then a message. It looks once more behind that, which is one of the two round trips.
 */
const BEGIN_MS: ReadonlyMap<string, number> = new Map([
  ["redis", CALM_MAX_MS],
  ["etcd", 3 * CALM_MAX_MS],
]);
/** Where only so many of a queue are told of a change: were all of them stuck, the next would look by the clock. */
const TOLD: ReadonlyMap<string, number> = new Map([["redis", 3]]);
/** Where so many look out for the end of the holder's session; who came behind as many hears of it with its next renewal. */
const LOOK_OUT: ReadonlyMap<string, number> = new Map([["postgres", 2]]);

export const firstComeFirstServed: MakeChecker = ({ isBeyondBounds }) =>
  following((event, waiters, facts, report) => {
    // There the clock of those behind may be half as fast again.
    if (isBeyondBounds) return;
    if (event.kind === "storePassedOver") passedOver(event, waiters, facts, report);
    if (event.kind !== "storeGranted") return;
    const { resource, attempt, at, token } = event;
    const before = facts.newest(resource);
    const taker = waiters.get(resource, attempt);
    if (before === undefined || before.token === token || taker === undefined) return;
    const freeMs = at - waiters.headStartSince(before, facts);
    if (freeMs >= (1 - CLOCKS) * HEAD_START_MS) return;
    for (const waiter of waiters.of(resource))
      if (waiter.queuedAt < taker.askedAt && waits(waiter, facts, at))
        report(
          "FIFO",
          `${resource}: ${token} went to ${taker.who}, though ${waiter.who} had waited longer`,
        );
  });

/** Where places are taken away, each that comes to be the first has its head start. */
function passedOver(event: PassedOver, waiters: Waiters, facts: Facts, report: Report): void {
  const { resource, attempt, at, isRevocation } = event;
  const before = facts.newest(resource);
  const waiter = waiters.get(resource, attempt);
  if (before === undefined || waiter === undefined || isRevocation) return;
  const firstSince = Math.max(waiters.freeSince(before, facts), waiters.lastPassedAt(resource));
  if (at - firstSince < (1 - CLOCKS) * HEAD_START_MS)
    report("FIFO", `${resource}: ${waiter.who} lost its place before its head start was over`);
}

export const promptGrants: MakeChecker = (plan) => {
  const told = TOLD.get(plan.store) ?? Number.POSITIVE_INFINITY;
  const lookOut = LOOK_OUT.get(plan.store) ?? Number.POSITIVE_INFINITY;
  const beginMs = BEGIN_MS.get(plan.store) ?? 0;
  let lagMs = 0;
  const judge = (at: number, grant: Grant, { waiters, facts, report }: Known): void => {
    const { resource } = grant;
    const freeSince = waiters.freeSince(grant, facts);
    // Who has run out keeps its place in the queue for as long as the store's lag.
    const all = [...waiters.of(resource)].filter(
      ({ session }) => facts.session(session).until + lagMs > freeSince,
    );
    // Whose wait began in the faults may have lost its wake-up.
    const waiting = all.filter(
      (waiter) =>
        waiter.askedAt > plan.faultyMs && waiter.queuedAt < freeSince && waits(waiter, facts, at),
    );
    const hasExpired = grant.freedAs === undefined;
    const heardAt = (waiter: Waiter): number =>
      Math.max(
        freeSince + waiters.unheardMs(waiter.who, freeSince),
        waiters.hearsFrom(waiter, beginMs),
      );
    for (const waiter of waiting) {
      // Of those whose requests crossed nobody knows who is first.
      const ahead = all.filter((other) => other !== waiter && other.askedAt <= waiter.queuedAt);
      if (ahead.length >= told) continue;
      const since = heardAt(waiter);
      const isReady = (other: Waiter): boolean =>
        waiting.includes(other) && heardAt(other) <= since;
      const limitMs =
        TWO_ROUND_TRIPS_MS +
        (ahead.every(isReady) ? 0 : (1 + CLOCKS) * HEAD_START_MS) +
        (hasExpired ? lagMs + plan.clockErrorMs : 0) +
        (hasExpired && waiters.whenItCame(waiter, resource, facts) >= lookOut
          ? (1 + CLOCKS) * renewEveryMs(plan)
          : 0);
      const lateMs = at - since - limitMs;
      if (lateMs <= 0) continue;
      const wait = `${waiter.who} waited for ${resource}, which was free,`;
      report(hasExpired ? "L1" : "L2", `${wait} ${lateMs.toFixed(2)} ms too long`);
      return;
    }
  };
  let isEvening = false;
  return following((event, waiters, facts, report) => {
    if (event.kind === "opened") lagMs = event.expiryLagMs;
    if (plan.isBeyondBounds || isEvening || !PROMPT.has(plan.store)) return;
    const known = { waiters, facts, report };
    if (event.kind === "storeGranted") {
      const before = facts.newest(event.resource);
      if (before !== undefined && before.token !== event.token) judge(event.at, before, known);
    }
    if (event.kind !== "evening") return;
    isEvening = true;
    for (const resource of waiters.resources()) {
      const newest = facts.newest(resource);
      if (newest !== undefined && !facts.isHeldAtStore(newest, event.at))
        judge(event.at, newest, known);
    }
  });
};

/** No session is kept for longer than its ttl and what the store's own steps add to it. */
export const keptForItsTtl: MakeChecker = ({ ttlMs, storeLagMs, isBeyondBounds }) => ({
  on(event, facts, report) {
    if (event.kind !== "storeKept" || isBeyondBounds) return;
    const keptMs = event.until - event.at;
    // What once() leaves behind is kept for its own time.
    if (!facts.session(event.session).isRenewed) return;
    if (keptMs > ROUNDING * (ttlMs + storeLagMs) + WHOLE_MS)
      report(
        "L1",
        `the store keeps a session for ${keptMs.toFixed(0)} ms, by a ttl of ${ttlMs} ms`,
      );
  },
});

type PassedOver = Extract<Traced, { kind: "storePassedOver" }>;

interface Known {
  readonly waiters: Waiters;
  readonly facts: Facts;
  readonly report: Report;
}

function following(
  judge: (event: Traced, waiters: Waiters, facts: Facts, report: Report) => void,
): Checker {
  const waiters = new Waiters();
  return {
    on(event, facts, report) {
      judge(event, waiters, facts, report);
      waiters.learn(event);
    },
  };
}

/** Somebody is there to take the resource, and the store knows of it. */
function waits({ hasLeft, session }: Waiter, facts: Facts, at: number): boolean {
  return !hasLeft && facts.session(session).until > at;
}
