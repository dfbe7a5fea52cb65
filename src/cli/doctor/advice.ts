// Derives recommended durations and a list of problems from the measurements of `tenure doctor`.
// Pure, so that every rule can be tested.

import { DOCS } from "../../core/docs.ts";
import { planTiming, type Timing } from "../../core/timing.ts";
import type { Guarantees } from "../../stores/contract.ts";
import { formatDuration } from "../parsing/duration.ts";
import type { HostLosses } from "./host.ts";
import type { Measured } from "./measure.ts";

export interface Facts {
  readonly measured: Measured;
  readonly host: HostLosses;
  readonly guarantees: Guarantees;
  readonly suspendSafe: boolean;
  /** The ttl to check. */
  readonly ttlMs: number;
  readonly forMs: number;
}

export interface Advice {
  readonly recommended: Timing;
  readonly reasons: readonly string[];
  /** Problems that would cause leases of this ttl to be lost or held twice. */
  readonly breaks: readonly string[];
  readonly warnings: readonly string[];
}

export type Percentiles = Readonly<
  Record<"count" | "p50" | "p90" | "p99" | "p999" | "max", number>
>;

/** A measurement of a few seconds misses the slowest round trips of a month. */
const ROUND_TRIP_FACTOR = 3;
const ROUND_TRIP_MIN_MS = 100;
const TTL_MIN_MS = 3_000;
/** A ttl of this many round trips leaves time for a lost renewal and some pauses. */
const TTL_ROUND_TRIPS = 8;

export function percentiles(values: readonly number[]): Percentiles {
  const sorted = [...values].sort((a, b) => a - b);
  const count = sorted.length;
  const at = (share: number): number =>
    sorted[Math.min(count - 1, Math.ceil(count * share) - 1)] ?? 0;
  return { count, p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1) };
}

export function advise(facts: Facts): Advice {
  const renew = percentiles(facts.measured.renewMs);
  const late = percentiles(facts.measured.lateMs);
  const roundTripMs = roundUp(
    Math.max(ROUND_TRIP_MIN_MS, ROUND_TRIP_FACTOR * renew.p999, renew.p999 + late.max),
  );
  const neededMs = roundUp(Math.max(TTL_MIN_MS, TTL_ROUND_TRIPS * roundTripMs));
  const ttlMs = Math.max(neededMs, facts.ttlMs);
  const recommended = planTiming({ ttlMs, roundTripMs });
  return {
    recommended,
    reasons: [
      `round-trip ${formatDuration(roundTripMs)}: ${ROUND_TRIP_FACTOR} times the 99.9th percentile of renewals (${formatMs(renew.p999)}), and at least that percentile plus the longest pause of this process (${formatMs(late.max)}).`,
      `ttl ${formatDuration(ttlMs)}: at least ${TTL_ROUND_TRIPS} such round trips, so at least ${formatDuration(neededMs)}. A longer ttl means fewer lost leases but a longer gap after a crash.`,
      `renew-every ${formatDuration(recommended.renewEveryMs)}: a third of the ttl, so that one renewal may be lost.`,
      `margin ${formatDuration(recommended.marginMs)}: clock error ${formatDuration(recommended.clockErrorMs)} plus round trip.`,
    ],
    breaks: findProblems(facts, neededMs),
    warnings: findWarnings(facts),
  };
}

function findProblems(facts: Facts, neededMs: number): string[] {
  const { measured, guarantees, ttlMs, suspendSafe } = facts;
  const found: string[] = [];
  if (ttlMs < neededMs) {
    found.push(
      `A ttl of ${formatDuration(ttlMs)} is too short for these round trips and pauses: healthy processes would lose their leases. Use ${formatDuration(neededMs)} or more.`,
    );
  }
  if (measured.failures > 0)
    found.push(
      `${measured.failures} requests failed or took longer than 5 s: check the store and the network.`,
    );
  if (!guarantees.durable)
    found.push(
      `The ${guarantees.store} store may lose grants when it restarts: two processes could then hold a lease at once. See ${DOCS}/stores.`,
    );
  if (!suspendSafe)
    found.push(
      "The clock of this platform may stop during suspend, and Tenure cannot detect that.",
    );
  return found;
}

function findWarnings({ host, guarantees, measured, forMs }: Facts): string[] {
  const { throttledMs, stolenShare } = host;
  const found: string[] = [];
  if (throttledMs !== undefined && throttledMs > 0) {
    found.push(
      `The CPU limit of this control group stopped its processes for ${formatMs(throttledMs)} in ${formatDuration(forMs)}: raise the limit, or add such pauses to --round-trip.`,
    );
  }
  if (stolenShare !== undefined && stolenShare > 0.01)
    found.push(`The hypervisor took ${(stolenShare * 100).toFixed(1)} % of the CPU time.`);
  if (guarantees.wakeUp === "poll")
    found.push("Waiters poll this store, so a handover takes up to one poll interval longer.");
  if (measured.renewMs.length < 1_000) {
    found.push(
      `Only ${measured.renewMs.length} renewals were measured, so p99.9 is close to the maximum. Measure longer, for example --for 30s.`,
    );
  }
  found.push(`When tokens of this store can decrease: ${guarantees.tokenFalls}.`);
  return found;
}

/** Rounds up to 1, 1.5, 2, 3, 5 or 7 times a power of ten: numbers that people choose. */
function roundUp(ms: number): number {
  const power = 10 ** Math.floor(Math.log10(ms));
  const step = [1, 1.5, 2, 3, 5, 7, 10].find((factor) => factor * power >= ms) ?? 10;
  return Math.ceil(step * power);
}

export function formatMs(ms: number): string {
  return `${ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
}
