// Leases for one process, and the start of the walk: acquire() leads to holder/acquire.ts, from there to the store, and
// back with a holder/lease.ts. What `connect()` returns is this, with elections (src/tenure.ts).

import type { Clock, Random } from "../async/clock.ts";
import { InFlight } from "../async/counter.ts";
import { checkSignal, linkSignals, untilAborted } from "../async/signals.ts";
import { checkDelay, withLimit } from "../async/waits.ts";
import { ClosedError, InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames } from "../core/options.ts";
import { everyPage } from "../core/pages.ts";
import { checkHolderId, encodeValue } from "../core/record.ts";
import { checkPrefix, checkResource } from "../core/resource.ts";
import { planTiming, type Timing, type TimingOptions } from "../core/timing.ts";
import type {
  Consistency,
  Guarantees,
  HolderView,
  LeaseView,
  ReadAnswer,
  Store,
} from "../stores/contract.ts";
import { type AcquireParts, acquire, type Busy, type LeasePlan, stayedBusy } from "./acquire.ts";
import { type Advanceable, advanceAll, checkGuards } from "./advance.ts";
import { Lease } from "./lease.ts";
import { memoryWarning } from "./memory-warning.ts";
import {
  ACQUIRE_OPTIONS,
  CLOSE_OPTIONS,
  LEASE_OPTIONS,
  READ_OPTIONS,
  WATCH_OPTIONS,
} from "./option-names.ts";
import { Sessions } from "./sessions.ts";
import { TokenMemory } from "./token-memory.ts";
import { Turns } from "./turns.ts";

/** The five numbers, and how a lease behaves. */
export interface LeaseOptions extends TimingOptions {
  /**
   * What `check()` and `run()` do while a renewal is being retried. `stop` throws LeaseInDoubtError: nothing is started
   * on a guess. `act` goes on until safeUntil; only for work that a guard protects. @default "stop"
   */
  readonly whileInDoubt?: "stop" | "act" | undefined;
  /** What followers may read about the holder: any JSON value of at most 4096 bytes. */
  readonly value?: unknown;
  /**
   * Advanced to the new token before the caller gets the lease, so that the former holder is refused from then on. One that
   * cannot be advanced: the lease is released and the call rejects with the reason. @default none: advanced by the first write
   */
  readonly guards?: readonly Advanceable[] | undefined;
}

export interface AcquireOptions extends LeaseOptions {
  /**
   * How long to wait for a busy resource. Too small: AcquireTimeoutError under load. `Infinity` waits for ever.
   * @default 10000
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait; the call rejects with the signal's reason. Does not end the lease. */
  readonly signal?: AbortSignal | undefined;
  /** @internal Called whenever the store is asked for the grant. */
  readonly onAsk?: (() => void) | undefined;
}

export interface CloseOptions {
  /**
   * How long work in flight may go on before the signals of its leases abort. Too small: work is cut short. Too large:
   * a hanging task delays the exit. @default 10000
   */
  readonly drainMs?: number | undefined;
}

export interface ReadOptions {
  /** `stale` may answer from a replica or a cache, where the store has one. @default "linearizable" */
  readonly consistency?: Consistency | undefined;
}

export interface WatchOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called whenever all that is held has been told; from the first time on silence means that nothing changed. */
  readonly onCaughtUp?: (() => void) | undefined;
}

export interface LeasesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  readonly defaults: AcquireOptions;
  readonly keepAlive: boolean;
  /** Where failures go that no caller waits for. */
  readonly warn: (message: string, error?: unknown) => void;
}

const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_DRAIN_MS = 10_000;
/** Reads, listings and revocations have no lease whose timing could bound them. */
const REQUEST_LIMIT_MS = 5_000;
const LIST_PAGE = 500;

export class Leases implements AsyncDisposable {
  readonly holderId: string;
  readonly #parts: LeasesParts;
  readonly #sessions: Sessions;
  readonly #turns = new Turns();
  readonly #tokens = new TokenMemory();
  readonly #closing = new AbortController();
  readonly #acquireParts: AcquireParts;
  readonly #defaultTiming: Timing;
  readonly #acquiring = new InFlight();
  #closed: Promise<void> | undefined;

  constructor(parts: LeasesParts) {
    checkOptions(parts);
    this.#parts = parts;
    this.holderId = parts.holderId;
    this.#sessions = new Sessions(parts);
    this.#defaultTiming = planTiming(timingIn(parts.defaults));
    const { store, clock, random, holderId } = parts;
    const onLastingGuard = memoryWarning(store, parts.warn);
    const own = { sessions: this.#sessions, turns: this.#turns, tokens: this.#tokens };
    const [acquiring, closing] = [this.#acquiring, this.#closing.signal];
    this.#acquireParts = {
      ...{ store, clock, random, holderId, ...own, acquiring, closing, onLastingGuard },
    };
  }

  /** What the store promises: where tokens come from, when they could fall, whose clock decides. */
  get guarantees(): Guarantees {
    return this.#parts.store.guarantees;
  }

  /**
   * Waits until the resource is free and holds it. Rejects with AcquireTimeoutError when `waitMs` is over. Waiters are
   * served first come, first served between processes: each Tenure has one place in the queue per resource, and its calls
   * take turns in it, in their own order. With callers waiting in two processes, the two therefore alternate.
   */
  acquire(resource: string, options: AcquireOptions = {}): Promise<Lease> {
    return this.#acquireFor("acquire()", resource, options);
  }

  async #acquireFor(call: string, resource: string, options: AcquireOptions): Promise<Lease> {
    checkOptionNames(call, options, ACQUIRE_OPTIONS);
    const { defaults } = this.#parts;
    const waitMs = checkDelay("waitMs", options.waitMs ?? defaults.waitMs ?? DEFAULT_WAIT_MS);
    const answer = await this.#acquire(resource, options, waitMs === 0 ? undefined : waitMs);
    if (answer instanceof Lease) return answer;
    throw stayedBusy(this.#acquireParts, { resource, waitMs, heldBy: answer.heldBy });
  }

  /** One try, no waiting: undefined when somebody else holds the resource. */
  async tryAcquire(resource: string, options: LeaseOptions = {}): Promise<Lease | undefined> {
    checkOptionNames("tryAcquire()", options, LEASE_OPTIONS);
    const answer = await this.#acquire(resource, options, undefined);
    return answer instanceof Lease ? answer : undefined;
  }

  /**
   * Acquires, runs the work under the lease, releases. Returns or throws what the work does; how the release went
   * never hides it.
   */
  async withLease<T>(resource: string, work: (lease: Lease) => T | Promise<T>): Promise<T>;
  async withLease<T>(
    resource: string,
    options: AcquireOptions,
    work: (lease: Lease) => T | Promise<T>,
  ): Promise<T>;
  async withLease<T>(
    resource: string,
    second: AcquireOptions | ((lease: Lease) => T | Promise<T>),
    third?: (lease: Lease) => T | Promise<T>,
  ): Promise<T> {
    const [options, work] = typeof second === "function" ? [{}, second] : [second, third];
    if (typeof work !== "function") {
      throw new InvalidArgumentError(
        "withLease(resource, options?, work) needs a function as its last argument.",
      );
    }
    const lease = await this.#acquireFor("withLease()", resource, options);
    try {
      return await lease.run(work);
    } finally {
      await lease.release();
    }
  }

  /** Who holds the resource, with the evidence the answer rests on. */
  async read(resource: string, options: ReadOptions = {}): Promise<ReadAnswer> {
    checkOptionNames("read()", options, READ_OPTIONS);
    this.refuseWhenClosed();
    const consistency = options.consistency ?? "linearizable";
    if (consistency !== "linearizable" && consistency !== "stale") {
      throw new InvalidArgumentError('`consistency` must be "linearizable" or "stale".');
    }
    const request = { resource: checkResource(resource), consistency, limitMs: REQUEST_LIMIT_MS };
    return this.#limited("read", () => this.#parts.store.read(request));
  }

  /** Every held lease whose resource begins with the prefix, in order; fetched page by page. */
  async *list(prefix = ""): AsyncGenerator<LeaseView, void, undefined> {
    checkPrefix(prefix);
    const pages = everyPage((after) => {
      this.refuseWhenClosed();
      const request = { prefix, after, limit: LIST_PAGE, limitMs: REQUEST_LIMIT_MS };
      return this.#limited("listing", () => this.#parts.store.list(request));
    });
    for await (const { leases } of pages) yield* leases;
  }

  /** First what is held now, then every change, until the signal aborts or the loop is left. */
  async *watch(
    prefix = "",
    options: WatchOptions = {},
  ): AsyncGenerator<LeaseView, void, undefined> {
    checkPrefix(prefix);
    checkOptionNames("watch()", options, WATCH_OPTIONS);
    this.refuseWhenClosed();
    const { signal, unlink } = linkSignals(this.#closing.signal, checkSignal(options.signal));
    try {
      const views = this.#parts.store.watch({ prefix, signal, onCaughtUp: options.onCaughtUp });
      yield* untilAborted(views, signal);
    } finally {
      unlink();
    }
  }

  /**
   * Ends whoever's lease it is. The resource is free at once; the holder hears of it with its next renewal, so until
   * then only a guard keeps it from acting. Answers whom it hit, or undefined when nobody held the resource.
   */
  async revoke(resource: string): Promise<HolderView | undefined> {
    const { holder } = await this.read(resource);
    if (holder === undefined) return undefined;
    const request = { resource, token: holder.token, limitMs: REQUEST_LIMIT_MS };
    const outcome = await this.#limited("revocation", () => this.#parts.store.revoke(request));
    return outcome.kind === "revoked" ? holder : undefined;
  }

  /** Lets work in flight finish, releases every lease, and lets go of the store. Rejects only for a bad option; idempotent. */
  close(options: CloseOptions = {}): Promise<void> {
    try {
      checkOptionNames("close()", options, CLOSE_OPTIONS);
      const drainMs = checkDelay("drainMs", options.drainMs ?? DEFAULT_DRAIN_MS);
      this.#closed ??= this.#close(drainMs);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal What a lease would be like; throws what acquire() would for options that cannot work. */
  plan(resource: string, options: LeaseOptions): LeasePlan {
    const { defaults } = this.#parts;
    const value = options.value ?? defaults.value;
    encodeValue(value);
    checkGuards(options.guards);
    return {
      resource: checkResource(resource),
      timing: this.#timing(options),
      value,
      actsInDoubt: checkDoubt(options.whileInDoubt ?? defaults.whileInDoubt) === "act",
    };
  }

  #acquire(
    resource: string,
    options: AcquireOptions,
    waitMs: number | undefined,
  ): Promise<Lease | Busy> {
    this.refuseWhenClosed();
    const { onAsk } = options;
    const signal = checkSignal(options.signal);
    const guards = checkGuards(options.guards ?? this.#parts.defaults.guards);
    const plan = this.plan(resource, options);
    const acquiring = acquire(this.#acquireParts, plan, { waitMs, signal, onAsk });
    return guards.length === 0 ? acquiring : this.#advanced(acquiring, guards, signal);
  }

  async #advanced(
    acquiring: Promise<Lease | Busy>,
    guards: readonly Advanceable[],
    signal: AbortSignal | undefined,
  ): Promise<Lease | Busy> {
    this.#acquiring.begin();
    try {
      const answer = await acquiring;
      if (!(answer instanceof Lease)) return answer;
      const signals = [signal, this.#closing.signal];
      return await advanceAll({ clock: this.#parts.clock, signals }, answer, guards);
    } finally {
      this.#acquiring.end();
    }
  }

  #timing(options: TimingOptions): Timing {
    const { defaults } = this.#parts;
    if (!namesTiming(options)) return this.#defaultTiming;
    // A ttl given for one lease brings its own bounds: those chosen for another ttl do not fit it.
    const base = options.ttlMs === undefined || options.ttlMs === defaults.ttlMs ? defaults : {};
    return planTiming({
      ttlMs: options.ttlMs ?? base.ttlMs,
      renewEveryMs: options.renewEveryMs ?? base.renewEveryMs,
      clockErrorMs: options.clockErrorMs ?? base.clockErrorMs,
      roundTripMs: options.roundTripMs ?? base.roundTripMs,
      marginMs: options.marginMs ?? base.marginMs,
    });
  }

  /** @internal Called when closing begins: for what holds leases by itself and has to be told. Must not reject. */
  protected async stopUsers(_drainMs: number): Promise<void> {}

  async #releaseAll(drainMs: number): Promise<void> {
    const members = this.#sessions.all().flatMap((session) => [...session.members]);
    const leases = members.filter((member) => member instanceof Lease);
    await Promise.all(leases.map((lease) => lease.release({ drainMs })));
  }

  #limited<T>(what: string, request: () => Promise<T>): Promise<T> {
    return withLimit(this.#parts.clock, REQUEST_LIMIT_MS, what, request);
  }

  /** @internal */
  refuseWhenClosed(): void {
    this.#closing.signal.throwIfAborted();
  }

  async #close(drainMs: number): Promise<void> {
    this.#closing.abort(ClosedError.from({ what: "This Tenure" }));
    // Leases take no new work from this moment on. Whoever is still acquiring gives back what the store may grant yet;
    // what slipped through before it looked is released as well.
    const stopped = this.stopUsers(drainMs);
    const released = this.#releaseAll(drainMs);
    await this.#acquiring.idle();
    await Promise.all([stopped, released, this.#releaseAll(drainMs)]);
    await this.#sessions.close();
    await this.#parts.store.close().catch(() => undefined);
  }
}

/** Everything of the options that can be judged before a store is opened. */
export function checkOptions(options: {
  readonly holderId: string;
  readonly defaults: AcquireOptions;
}): void {
  const { defaults } = options;
  checkHolderId(options.holderId);
  checkOptionNames("connect() `defaults`", defaults, ACQUIRE_OPTIONS);
  planTiming(timingIn(defaults));
  checkDoubt(defaults.whileInDoubt);
  encodeValue(defaults.value);
  checkGuards(defaults.guards);
  if (defaults.waitMs !== undefined) checkDelay("waitMs", defaults.waitMs);
}

function timingIn(options: TimingOptions): TimingOptions {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = options;
  return { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs };
}

function namesTiming(options: TimingOptions): boolean {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = options;
  const asked = ttlMs ?? renewEveryMs ?? clockErrorMs ?? roundTripMs ?? marginMs;
  return asked !== undefined;
}

function checkDoubt(whileInDoubt: unknown): "stop" | "act" {
  if (whileInDoubt === undefined || whileInDoubt === "stop") return "stop";
  if (whileInDoubt === "act") return "act";
  throw new InvalidArgumentError(
    `\`whileInDoubt\` must be "stop" or "act", got ${String(whileInDoubt)}.`,
  );
}
