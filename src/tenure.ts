// The object that connect() returns: leases (holder/), elections (election/) and scheduled runs
// (once/) on one store, closed together.

import { ClosedError } from "./core/errors.ts";
import { Candidate } from "./election/candidate.ts";
import type { Election, ElectionOptions } from "./election/election.ts";
import { checkElection } from "./election/options.ts";
import type { Lease } from "./holder/lease.ts";
import { Leases, type LeasesParts } from "./holder/leases.ts";
import type {
  AcquireOptions,
  CloseOptions,
  ReadOptions,
  SeveralOptions,
  TryAcquireOptions,
  WatchOptions,
} from "./holder/options.ts";
import { SeveralLeases } from "./holder/several-leases.ts";
import {
  type OnceOptions,
  type OncePerOptions,
  type OnceResult,
  type OnceWork,
  once,
  oncePer,
} from "./once/once.ts";
import type { Guarantees, HolderView, LeaseView, ReadAnswer } from "./stores/contract.ts";

/** A connection to a store: acquire leases, run elections, run scheduled work once. */
export interface Tenure extends AsyncDisposable {
  /** The name of this process in the store, for people to read. */
  readonly holderId: string;

  /** What the store promises: where tokens come from, when they could fall, whose clock decides. */
  readonly guarantees: Guarantees;

  /**
   * Waits until the resource is free and acquires it. Rejects with AcquireTimeoutError when
   * `waitMs` has passed. Waiters are served first come, first served (docs/guarantees.md, Order of
   * waiters).
   */
  acquire(resource: string, options?: AcquireOptions): Promise<Lease>;

  /** Tries once, without waiting. Undefined if another holder has the resource. */
  tryAcquire(resource: string, options?: TryAcquireOptions): Promise<Lease | undefined>;

  /**
   * Acquires, runs `work` under the lease and releases. Returns or throws what the work does; the
   * result of the release never hides it. On stores that hand off, the answer to the release is not
   * awaited.
   */
  withLease<T>(resource: string, work: (lease: Lease) => T | Promise<T>): Promise<T>;
  /** The same with options for the acquisition, such as `waitMs` and `ttlMs`. */
  withLease<T>(
    resource: string,
    options: AcquireOptions,
    work: (lease: Lease) => T | Promise<T>,
  ): Promise<T>;

  /**
   * Acquires all of the resources or none, and returns the leases in the same order. Each has its
   * own token. Calls with overlapping lists, in any order, cannot wait for each other. `waitMs` is
   * the limit for all together.
   */
  acquireAll(resources: readonly string[], options?: SeveralOptions): Promise<readonly Lease[]>;

  /**
   * Acquires one of the resources, whichever is granted first. Waits in all queues and leaves the
   * others. `acquire(resource, { slots })` builds a semaphore on it.
   */
  acquireAny(resources: readonly string[], options?: SeveralOptions): Promise<Lease>;

  /** Acquires all resources as acquireAll() does, runs `work` under them and releases them. */
  withLeases<T>(
    resources: readonly string[],
    work: (leases: readonly Lease[]) => T | Promise<T>,
  ): Promise<T>;
  /** The same with options for the acquisition. */
  withLeases<T>(
    resources: readonly string[],
    options: SeveralOptions,
    work: (leases: readonly Lease[]) => T | Promise<T>,
  ): Promise<T>;

  /**
   * A candidate for leadership under this name. It does nothing before `start()`. Its `leader()`
   * and `observe()` also work without `start()`, for processes that only follow.
   */
  election(name: string, options: ElectionOptions): Election;

  /**
   * Runs `work` at most once per scheduled time, across all machines: on the first machine that
   * calls, under the lease on `key`. The other calls return `ran: false`. A marker in the store
   * records that this time has been handled. It remains when `work` throws (its error is rethrown
   * unchanged), when the process dies, and after close().
   */
  once<T>(key: string, options: OnceOptions, work: OnceWork<T>): Promise<OnceResult<T>>;

  /**
   * Runs `work` at most once per period of `everyMs`, across all machines, on the first machine
   * that calls. Otherwise as once(), which is better where the scheduled time is known.
   */
  oncePer<T>(key: string, options: OncePerOptions, work: OnceWork<T>): Promise<OnceResult<T>>;

  /** Reads the holder of a resource, with the evidence that the answer rests on. */
  read(resource: string, options?: ReadOptions): Promise<ReadAnswer>;

  /**
   * Every held lease whose resource begins with the prefix, in order, fetched page by page. Omits
   * the records that once() and elections keep for themselves.
   */
  list(prefix?: string): AsyncGenerator<LeaseView, void, undefined>;

  /**
   * First every held lease, then every change, until the signal aborts or the loop is left. Omits
   * the same records as list().
   */
  watch(prefix?: string, options?: WatchOptions): AsyncGenerator<LeaseView, void, undefined>;

  /**
   * Ends the lease of the current holder and returns that holder; undefined if the resource was
   * free. The resource is free for others immediately. The former holder is notified, at once on
   * stores that hand off, and with its next renewal at the latest. Until then, only a guard
   * prevents it from acting.
   */
  revoke(resource: string): Promise<HolderView | undefined>;

  /**
   * Stops elections, lets work in flight finish, releases every lease and closes the store. Rejects
   * only for an invalid option. Further calls return the same promise.
   */
  close(options?: CloseOptions): Promise<void>;
}

export function createTenure(parts: LeasesParts): Tenure {
  const leases = new Leases(parts);
  const several = new SeveralLeases(leases);
  const candidates = new Candidates();
  const close: Tenure["close"] = (options = {}) =>
    leases.close(options, (drainMs) => candidates.stop(drainMs));
  return {
    holderId: leases.holderId,
    get guarantees() {
      return leases.guarantees;
    },
    acquire: (resource, options) => leases.acquire(resource, options),
    tryAcquire: (resource, options) => leases.tryAcquire(resource, options),
    withLease: <T>(
      resource: string,
      second: AcquireOptions | ((lease: Lease) => T | Promise<T>),
      third?: (lease: Lease) => T | Promise<T>,
    ) => leases.withLease(resource, second, third),
    acquireAll: (resources, options) => several.acquireAll(resources, options),
    acquireAny: (resources, options) => several.acquireAny(resources, options),
    withLeases: <T>(
      resources: readonly string[],
      second: SeveralOptions | ((leases: readonly Lease[]) => T | Promise<T>),
      third?: (leases: readonly Lease[]) => T | Promise<T>,
    ) => several.withLeases(resources, second, third),
    election: (name, options) => {
      checkElection(options);
      const { marginMs } = leases.plan(name, options).timing;
      const { onStart, onStopped } = candidates;
      const own = { ...parts, leases, marginMs, onStart, onStopped };
      return new Candidate(own, name, options);
    },
    once: (key, options, work) => once({ ...parts, leases }, key, options, work),
    oncePer: (key, options, work) => oncePer({ ...parts, leases }, key, options, work),
    read: (resource, options) => leases.read(resource, options),
    list: (prefix) => leases.list(prefix),
    watch: (prefix, options) => leases.watch(prefix, options),
    revoke: (resource) => leases.revoke(resource),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/** The candidates that have been started and have not stopped. */
class Candidates {
  readonly #started = new Set<Candidate>();
  #isClosing = false;

  readonly onStart = (candidate: Candidate): void => {
    if (this.#isClosing) throw ClosedError.from({ what: "This Tenure" });
    this.#started.add(candidate);
  };

  readonly onStopped = (candidate: Candidate): void => {
    this.#started.delete(candidate);
  };

  async stop(drainMs: number): Promise<void> {
    this.#isClosing = true;
    await Promise.all([...this.#started].map((candidate) => candidate.stop({ drainMs })));
  }
}
