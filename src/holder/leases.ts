// The leases of one Tenure: acquire, read, list, watch, revoke, close. This file checks arguments
// and handles reentrance and guards; acquire.ts requests the grant and returns a HeldLease
// (held-lease.ts). src/tenure.ts combines this class with elections and scheduled runs, which call
// acquireHeld(), plan() and findInCallChain().

import type { Clock, Random } from "../async/clock.ts";
import { findRunning } from "../async/context.ts";
import { InFlight } from "../async/counter.ts";
import { checkSignal, linkSignals, untilAborted } from "../async/signals.ts";
import { checkDelay, withLimit } from "../async/waits.ts";
import { ClosedError, InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames } from "../core/options.ts";
import { everyPage } from "../core/pages.ts";
import { encodeValue } from "../core/record.ts";
import { checkPrefix, checkResource } from "../core/resource.ts";
import { planTiming, type Timing } from "../core/timing.ts";
import type { Guarantees, HolderView, LeaseView, ReadAnswer, Store } from "../stores/contract.ts";
import {
  type AcquireParts,
  acquire,
  type Busy,
  type LeasePlan,
  toTimeoutError,
  type WaitPlan,
} from "./acquire.ts";
import { type Advanceable, advanceAll, checkGuards } from "./advance.ts";
import { HeldLease } from "./held-lease.ts";
import type { Lease } from "./lease.ts";
import { createMemoryWarning } from "./memory-warning.ts";
import { NestedLease } from "./nested-lease.ts";
import {
  ACQUIRE_OPTIONS,
  type AcquireOptions,
  CLOSE_OPTIONS,
  type CloseOptions,
  checkDefaults,
  checkReentrant,
  checkWhileInDoubt,
  hasTiming,
  type LeaseOptions,
  mergeTiming,
  pickTiming,
  READ_OPTIONS,
  type ReadOptions,
  TRY_ACQUIRE_OPTIONS,
  type TryAcquireOptions,
  WATCH_OPTIONS,
  type WatchOptions,
} from "./options.ts";
import { checkUnreserved, isReserved } from "./reserved-names.ts";
import { Sessions } from "./sessions.ts";
import { acquireAny, type SeveralParts, toSlots, tryAny } from "./several.ts";
import { TokenMemory } from "./token-memory.ts";

export interface LeasesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  readonly defaults: AcquireOptions;
  readonly keepAlive: boolean;
  /** Receives failures that no caller waits for. */
  readonly warn: (message: string, error?: unknown) => void;
}

/** The work that withLease() runs. */
type Work<T> = (lease: Lease) => T | Promise<T>;

const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_DRAIN_MS = 10_000;
/** The time limit of reads, listings and revocations, which have no lease with a timing. */
const REQUEST_LIMIT_MS = 5_000;
const LIST_PAGE = 500;

export class Leases {
  readonly holderId: string;
  readonly #parts: LeasesParts;
  readonly #sessions: Sessions;
  readonly #closing = new AbortController();
  readonly #acquireParts: AcquireParts;
  /** For calls that name several resources. */
  readonly severalParts: SeveralParts;
  readonly #defaultTiming: Timing;
  readonly #acquiring = new InFlight();
  #closed: Promise<void> | undefined;

  constructor(parts: LeasesParts) {
    checkDefaults(parts.holderId, parts.defaults);
    const { store, clock, random, holderId } = parts;
    this.#parts = parts;
    this.holderId = holderId;
    this.#sessions = new Sessions(parts);
    this.#defaultTiming = planTiming(pickTiming(parts.defaults));
    this.#acquireParts = {
      store,
      clock,
      random,
      holderId,
      sessions: this.#sessions,
      tokens: new TokenMemory(),
      acquiring: this.#acquiring,
      closing: this.#closing.signal,
      onLastingGuard: createMemoryWarning(store, parts.warn),
    };
    this.severalParts = {
      clock,
      random,
      tryAcquire: (resource, options) => this.tryAcquireHeld(resource, options),
      acquire: (resource, options) => this.acquireHeld(resource, options),
    };
  }

  get guarantees(): Guarantees {
    return this.#parts.store.guarantees;
  }

  acquire(resource: string, options: AcquireOptions = {}): Promise<Lease> {
    return this.#acquireOrReenter("acquire()", resource, options);
  }

  async tryAcquire(resource: string, options: TryAcquireOptions = {}): Promise<Lease | undefined> {
    checkOptionNames("tryAcquire()", options, TRY_ACQUIRE_OPTIONS);
    const slots = this.#toSlots(resource, options);
    const nested = this.#reenter(slots, options);
    if (nested !== undefined) return nested;
    return tryAny(this.severalParts, slots, options);
  }

  async withLease<T>(
    resource: string,
    second: AcquireOptions | Work<T>,
    third?: Work<T>,
  ): Promise<T> {
    const [options, work] = typeof second === "function" ? [{}, second] : [second, third];
    if (typeof work !== "function") {
      throw new InvalidArgumentError(
        "withLease(resource, options?, work) needs a function as its last argument.",
      );
    }
    const lease = await this.#acquireOrReenter("withLease()", resource, options);
    if (lease instanceof NestedLease) return lease.runInside(work);
    try {
      return await lease.run(work);
    } finally {
      await lease.startRelease();
    }
  }

  /**
   * Acquires without looking for a lease in the call chain. Elections and once() call it too: they
   * wait on behalf of their own loop, not of the calling code. The caller has checked the names of
   * `options`.
   */
  async acquireHeld(
    resource: string,
    options: AcquireOptions,
    place: Pick<WaitPlan, "rank" | "onQueued"> = {},
  ): Promise<HeldLease> {
    const waitMs = this.planWaitMs(options);
    const signal = checkSignal(options.signal);
    const answer = await this.#acquire(resource, options, {
      waitMs: waitMs === 0 ? undefined : waitMs,
      signal,
      ...place,
    });
    if (answer instanceof HeldLease) return answer;
    throw toTimeoutError(this.#acquireParts, { resource, waitMs, heldBy: answer.heldBy });
  }

  async read(resource: string, options: ReadOptions = {}): Promise<ReadAnswer> {
    checkOptionNames("read()", options, READ_OPTIONS);
    this.throwIfClosed();
    const consistency = options.consistency ?? "linearizable";
    if (consistency !== "linearizable" && consistency !== "stale") {
      throw new InvalidArgumentError('`consistency` must be "linearizable" or "stale".');
    }
    const request = { resource: checkResource(resource), consistency, limitMs: REQUEST_LIMIT_MS };
    return this.#limited("read", () => this.#parts.store.read(request));
  }

  async *list(prefix = ""): AsyncGenerator<LeaseView, void, undefined> {
    checkPrefix(prefix);
    const pages = everyPage((after) => {
      this.throwIfClosed();
      const request = { prefix, after, limit: LIST_PAGE, limitMs: REQUEST_LIMIT_MS };
      return this.#limited("listing", () => this.#parts.store.list(request));
    });
    for await (const { leases } of pages)
      for (const view of leases) if (!isReserved(view.resource)) yield view;
  }

  async *watch(
    prefix = "",
    options: WatchOptions = {},
  ): AsyncGenerator<LeaseView, void, undefined> {
    checkPrefix(prefix);
    checkOptionNames("watch()", options, WATCH_OPTIONS);
    this.throwIfClosed();
    const { signal, unlink } = linkSignals(this.#closing.signal, checkSignal(options.signal));
    try {
      const views = this.#parts.store.watch({ prefix, signal, onCaughtUp: options.onCaughtUp });
      for await (const view of untilAborted(views, signal))
        if (!isReserved(view.resource)) yield view;
    } finally {
      unlink();
    }
  }

  async revoke(resource: string): Promise<HolderView | undefined> {
    const { holder } = await this.read(resource);
    if (holder === undefined) return undefined;
    const request = { resource, token: holder.token, limitMs: REQUEST_LIMIT_MS };
    const outcome = await this.#limited("revocation", () => this.#parts.store.revoke(request));
    return outcome.kind === "revoked" ? holder : undefined;
  }

  /** `stopUsers` stops what acquires leases by itself (elections). It must not reject. */
  close(options: CloseOptions, stopUsers?: (drainMs: number) => Promise<void>): Promise<void> {
    try {
      checkOptionNames("close()", options, CLOSE_OPTIONS);
      const drainMs = checkDelay("drainMs", options.drainMs ?? DEFAULT_DRAIN_MS);
      this.#closed ??= this.#close(drainMs, stopUsers);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#closed;
  }

  throwIfClosed(): void {
    this.#closing.signal.throwIfAborted();
  }

  /** The lease that acquire() would request. Throws as acquire() would for invalid arguments. */
  plan(resource: string, options: LeaseOptions): LeasePlan {
    const { defaults } = this.#parts;
    const value = options.value ?? defaults.value;
    encodeValue(value);
    checkGuards(options.guards);
    return {
      resource: checkUnreserved(resource),
      timing: hasTiming(options) ? mergeTiming(options, defaults) : this.#defaultTiming,
      value,
      actsInDoubt: checkWhileInDoubt(options.whileInDoubt ?? defaults.whileInDoubt) === "act",
    };
  }

  /** The lease on this resource that the calling code works under, if it is one of this Tenure. */
  findInCallChain(resource: string): HeldLease | undefined {
    return findRunning(
      (held): held is HeldLease =>
        held.resource === resource && held instanceof HeldLease && this.#sessions.include(held),
    );
  }

  async #acquireOrReenter(
    call: string,
    resource: string,
    options: AcquireOptions,
  ): Promise<HeldLease | NestedLease> {
    checkOptionNames(call, options, ACQUIRE_OPTIONS);
    const slots = this.#toSlots(resource, options);
    const nested = this.#reenter(slots, options);
    if (nested !== undefined) return nested;
    const [only] = slots;
    if (only !== undefined && slots.length === 1) return this.acquireHeld(only, options);
    checkSignal(options.signal);
    return acquireAny(this.severalParts, slots, { ...options, waitMs: this.planWaitMs(options) });
  }

  /** The resources of which one is wanted: the resource itself, or its slots. */
  #toSlots(resource: string, { slots }: TryAcquireOptions): readonly string[] {
    return slots === undefined ? [resource] : toSlots(checkResource(resource), slots);
  }

  /** How long an acquisition with these options waits. */
  planWaitMs(options: AcquireOptions): number {
    const { defaults } = this.#parts;
    return checkDelay("waitMs", options.waitMs ?? defaults.waitMs ?? DEFAULT_WAIT_MS);
  }

  /**
   * The lease that the calling code already works under, for a reentrant acquisition. Throws if the
   * caller has not asked for that: the acquisition would wait for its own caller.
   */
  #reenter(slots: readonly string[], options: AcquireOptions): Promise<NestedLease> | undefined {
    const { defaults } = this.#parts;
    const reentrant = checkReentrant(options.reentrant ?? defaults.reentrant);
    const [outer] = slots.flatMap((name) => this.findInCallChain(name) ?? []);
    if (outer === undefined) return undefined;
    const { resource } = outer;
    if (!reentrant) {
      this.throwIfClosed();
      throw alreadyHeld(resource);
    }
    this.plan(resource, options);
    const signal = checkSignal(options.signal);
    signal?.throwIfAborted();
    // Also while the Tenure closes: the work in flight, which this is a part of, may finish.
    return this.#advance(new NestedLease(outer), this.#guards(options), [signal]);
  }

  /** As acquireHeld(), without waiting. Undefined: busy. */
  async tryAcquireHeld(resource: string, options: LeaseOptions): Promise<HeldLease | undefined> {
    const answer = await this.#acquire(resource, options, { waitMs: undefined, signal: undefined });
    return answer instanceof HeldLease ? answer : undefined;
  }

  #acquire(resource: string, options: LeaseOptions, wait: WaitPlan): Promise<HeldLease | Busy> {
    this.throwIfClosed();
    const guards = this.#guards(options);
    const plan = this.plan(resource, options);
    const acquiring = acquire(this.#acquireParts, plan, wait);
    return guards.length === 0 ? acquiring : this.#acquireGuarded(acquiring, guards, wait.signal);
  }

  async #acquireGuarded(
    acquiring: Promise<HeldLease | Busy>,
    guards: readonly Advanceable[],
    signal: AbortSignal | undefined,
  ): Promise<HeldLease | Busy> {
    this.#acquiring.begin();
    try {
      const answer = await acquiring;
      if (!(answer instanceof HeldLease)) return answer;
      return await this.#advance(answer, guards, [signal, this.#closing.signal]);
    } finally {
      this.#acquiring.end();
    }
  }

  #guards(options: LeaseOptions): readonly Advanceable[] {
    return checkGuards(options.guards ?? this.#parts.defaults.guards);
  }

  async #advance<L extends Lease>(
    lease: L,
    guards: readonly Advanceable[],
    signals: readonly (AbortSignal | undefined)[],
  ): Promise<L> {
    if (guards.length === 0) return lease;
    return advanceAll({ clock: this.#parts.clock, signals }, lease, guards);
  }

  async #releaseAll(drainMs: number): Promise<void> {
    const members = this.#sessions.all().flatMap((session) => [...session.members]);
    const leases = members.filter((member) => member instanceof HeldLease);
    await Promise.all(leases.map((lease) => lease.release({ drainMs })));
  }

  #limited<T>(what: string, request: () => Promise<T>): Promise<T> {
    return withLimit(this.#parts.clock, REQUEST_LIMIT_MS, what, request);
  }

  async #close(
    drainMs: number,
    stopUsers: ((drainMs: number) => Promise<void>) | undefined,
  ): Promise<void> {
    this.#closing.abort(ClosedError.from({ what: "This Tenure" }));
    // Leases accept no new work from here on. Acquisitions in progress withdraw their requests; a
    // lease that one of them had already obtained is released by the second #releaseAll().
    const stopped = stopUsers?.(drainMs);
    const released = this.#releaseAll(drainMs);
    await this.#acquiring.idle();
    await Promise.all([stopped, released, this.#releaseAll(drainMs)]);
    await this.#sessions.close();
    await this.#parts.store.close().catch(() => undefined);
  }
}

export function alreadyHeld(resource: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `You already hold "${resource}" in this call chain, so this call would wait for its own ` +
      "caller. Pass reentrant: true to get the same lease, or release it first.",
    { resource },
  );
}
