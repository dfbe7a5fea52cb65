// The public face of a lease: what a caller can see and do while it holds a resource. held-lease.ts
// implements it for an acquired lease, nested-lease.ts for a reentrant acquisition.

import type { OptionNames } from "../core/options.ts";
import type { Handover, HandoverOptions } from "./handover.ts";

/** Options of release(). */
export interface ReleaseOptions {
  /**
   * How long work in flight may continue before `signal` aborts. Too small: work is cut short. Too
   * large: a hanging task keeps the resource busy. @default Infinity (as long as renewals succeed)
   */
  readonly drainMs?: number | undefined;
}

export const RELEASE_OPTIONS: OptionNames<ReleaseOptions> = { drainMs: true };

/**
 * How a release went.
 * - `released`: the resource is free.
 * - `lost`: the lease had already ended.
 * - `unconfirmed`: the store did not answer. The next renewal repeats the release, and the resource
 *   is free at the latest when the ttl has passed.
 * - `overrun`: work is still running although its signal has aborted. The resource stays busy until
 *   that work settles or the ttl has passed.
 * - `kept`: this was a reentrant acquisition. The outermost acquisition still holds the lease.
 */
export type ReleaseResult = "released" | "lost" | "unconfirmed" | "overrun" | "kept";

/** A time-limited right to one resource. Renewed in the background until it is released or lost. */
export interface Lease extends AsyncDisposable {
  /** The name of the protected resource, as passed to acquire(). */
  readonly resource: string;
  /**
   * The fencing token: larger than that of every earlier grant of this resource, and unchanged by
   * renewals. Pass it to guards.
   */
  readonly token: bigint;
  /**
   * Aborts when the lease ends, before any other process can hold the resource. Its reason is the
   * LeaseLostError.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts when another caller waits for the resource, so that long work can stop early and hand
   * over. It does not end the lease. A lost notification delays it by up to `renewEveryMs`. On
   * stores that do not hand off yet (PostgreSQL, Redis, etcd, ZooKeeper) it never aborts.
   */
  readonly wanted: AbortSignal;
  /**
   * The instant on the monotonic clock (`performance.now()`) from which this lease may not be used
   * unless it has been renewed.
   */
  readonly safeUntil: number;
  /**
   * Returns the token if the holder may act at this moment; throws LeaseLostError or
   * LeaseInDoubtError otherwise. Call it right before every action. It only compares the clock with
   * the deadline, so it is cheap.
   */
  check(): bigint;
  /** Resolves when the lease is not in doubt; rejects with LeaseLostError if it is lost first. */
  confirmed(): Promise<void>;
  /**
   * Runs work under this lease. release() waits for the work, and `currentLease()` returns this
   * lease inside it. Throws without starting the work if the lease is lost, in doubt or draining.
   * The result or error of the work is returned unchanged.
   */
  run<T>(work: (lease: Lease) => T | Promise<T>): Promise<T>;
  /**
   * Accepts no new work, waits for work in flight, then frees the resource. Rejects only for an
   * invalid option, or when called without `drainMs` by the work that it would wait for. Further
   * calls return the result of the first.
   */
  release(options?: ReleaseOptions): Promise<ReleaseResult>;
  /** Releases, then waits until a successor holds the resource. */
  handover(options: HandoverOptions): Promise<Handover>;
}
