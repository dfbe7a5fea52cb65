// The options of leases: their public types, the lists of their names, and the checks that need no
// store. connect() runs the same checks on its `defaults` before it opens anything.

import { checkDelay } from "../async/waits.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import { checkHolderId, encodeValue } from "../core/record.ts";
import { planTiming, TIMING_OPTIONS, type Timing, type TimingOptions } from "../core/timing.ts";
import type { Consistency } from "../stores/contract.ts";
import { type Advanceable, checkGuards } from "./advance.ts";

/** The five timing numbers of a lease, and how it behaves. */
export interface LeaseOptions extends TimingOptions {
  /**
   * What `check()` and `run()` do while a failed renewal is being retried. `stop`: they throw
   * LeaseInDoubtError, so no new work starts. `act`: they succeed until safeUntil; use it only for
   * work that a guard protects. @default "stop"
   */
  readonly whileInDoubt?: "stop" | "act" | undefined;
  /** What other processes can read about the holder: any JSON value of at most 4096 bytes. */
  readonly value?: unknown;
  /**
   * Guards to advance to the new token before the caller gets the lease. From then on they refuse
   * the former holder. If one cannot be advanced, the lease is released and the call rejects with
   * the reason. @default none: the first guarded write advances its guard
   */
  readonly guards?: readonly Advanceable[] | undefined;
}

/** Options of tryAcquire(). */
export interface TryAcquireOptions extends LeaseOptions {
  /**
   * How many holders may have the resource at the same time, from 1 to 1000: a semaphore. Each slot
   * is a resource of its own, `resource#1` to `resource#slots`, with its own token. Callers wait in
   * the queues of all slots; each queue is first come, first served, so a caller may be granted a
   * slot slightly before one that came earlier. All callers must use the same number: one with a
   * smaller number leaves slots unused, one with a larger number admits more holders than the
   * others expect. @default none: one holder
   */
  readonly slots?: number | undefined;
  /**
   * What happens if the calling code already runs under a lease on this resource, inside
   * `lease.run()` or `withLease()` of the same Tenure. `false`: the call throws
   * InvalidArgumentError, because waiting would never end. `true`: the call returns that lease,
   * with the same token and deadline. `release()` of the returned object then does nothing and
   * returns "kept"; the outermost acquisition releases the lease. Of the other options, only
   * `guards` has an effect on a lease that is already held. @default false
   */
  readonly reentrant?: boolean | undefined;
}

/** Options of acquire() and withLease(). */
export interface AcquireOptions extends TryAcquireOptions {
  /**
   * How long to wait for a busy resource. Too small: AcquireTimeoutError under load. `Infinity`
   * waits without a limit. @default 10000
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait; the call rejects with the signal's reason. Does not end the lease. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of acquireAll(), acquireAny() and withLeases(). */
export type SeveralOptions = Omit<AcquireOptions, "reentrant" | "slots">;

/** Options of close(). */
export interface CloseOptions {
  /**
   * How long work in flight may continue before the signals of its leases abort. Too small: work is
   * cut short. Too large: a hanging task delays the exit. @default 10000
   */
  readonly drainMs?: number | undefined;
}

/** Options of read(). */
export interface ReadOptions {
  /** `stale` may answer from a replica or a cache, if the store has one. @default "linearizable" */
  readonly consistency?: Consistency | undefined;
}

/** Options of watch(). */
export interface WatchOptions {
  /** Ends the watch. @default none: leave the loop */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called whenever every lease held at that time has been reported. After the first call, a
   * resource that was not reported is free.
   */
  readonly onCaughtUp?: (() => void) | undefined;
}

export const LEASE_OPTIONS: OptionNames<LeaseOptions> = {
  ...TIMING_OPTIONS,
  whileInDoubt: true,
  value: true,
  guards: true,
};

export const TRY_ACQUIRE_OPTIONS: OptionNames<TryAcquireOptions> = {
  ...LEASE_OPTIONS,
  slots: true,
  reentrant: true,
};

export const ACQUIRE_OPTIONS: OptionNames<AcquireOptions> = {
  ...TRY_ACQUIRE_OPTIONS,
  waitMs: true,
  signal: true,
};

export const SEVERAL_OPTIONS: OptionNames<SeveralOptions> = {
  ...LEASE_OPTIONS,
  waitMs: true,
  signal: true,
};

export const CLOSE_OPTIONS: OptionNames<CloseOptions> = { drainMs: true };
export const READ_OPTIONS: OptionNames<ReadOptions> = { consistency: true };
export const WATCH_OPTIONS: OptionNames<WatchOptions> = { signal: true, onCaughtUp: true };

/** Checks everything that can be checked before a store is opened. */
export function checkDefaults(holderId: string, defaults: AcquireOptions): void {
  checkHolderId(holderId);
  checkOptionNames("connect() `defaults`", defaults, ACQUIRE_OPTIONS);
  planTiming(pickTiming(defaults));
  checkWhileInDoubt(defaults.whileInDoubt);
  encodeValue(defaults.value);
  checkGuards(defaults.guards);
  checkReentrant(defaults.reentrant);
  if (defaults.waitMs !== undefined) checkDelay("waitMs", defaults.waitMs);
}

/** The timing for one lease: its own options, completed from the defaults. */
export function mergeTiming(options: TimingOptions, defaults: TimingOptions): Timing {
  // Bounds chosen for another ttl do not fit, so a call with its own ttl takes no defaults.
  const base = options.ttlMs === undefined || options.ttlMs === defaults.ttlMs ? defaults : {};
  return planTiming({
    ttlMs: options.ttlMs ?? base.ttlMs,
    renewEveryMs: options.renewEveryMs ?? base.renewEveryMs,
    clockErrorMs: options.clockErrorMs ?? base.clockErrorMs,
    roundTripMs: options.roundTripMs ?? base.roundTripMs,
    marginMs: options.marginMs ?? base.marginMs,
  });
}

export function pickTiming(options: TimingOptions): TimingOptions {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = options;
  return { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs };
}

export function hasTiming(options: TimingOptions): boolean {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = options;
  return (ttlMs ?? renewEveryMs ?? clockErrorMs ?? roundTripMs ?? marginMs) !== undefined;
}

export function checkWhileInDoubt(whileInDoubt: unknown): "stop" | "act" {
  if (whileInDoubt === undefined || whileInDoubt === "stop") return "stop";
  if (whileInDoubt === "act") return "act";
  throw new InvalidArgumentError(
    `\`whileInDoubt\` must be "stop" or "act", got ${String(whileInDoubt)}.`,
  );
}

export function checkReentrant(reentrant: unknown): boolean {
  if (reentrant === undefined || typeof reentrant === "boolean") return reentrant ?? false;
  throw new InvalidArgumentError(`\`reentrant\` must be true or false, got ${String(reentrant)}.`);
}
