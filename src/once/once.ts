// Runs work at most once per occurrence across all machines: once() per scheduled time, oncePer()
// per period. The process holds the lease on the key while the work runs; the lease provides the
// fencing token and prevents overlap. A marker (markers.ts) records that the occurrence has begun.
// The marker outlives the lease, so a machine with a slow clock does not run the work again.

import { badDelay, isDelay } from "../async/waits.ts";
import { type AcquireTimeoutError, InvalidArgumentError, isTenureError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import type { HeldLease } from "../holder/held-lease.ts";
import type { Lease } from "../holder/lease.ts";
import type { Leases } from "../holder/leases.ts";
import { ACQUIRE_OPTIONS, type AcquireOptions } from "../holder/options.ts";
import type { UnrenewedSessionParts } from "../holder/unrenewed-session.ts";
import { findTaken, type Marked, markBegun, type Taken } from "./markers.ts";
import {
  isLate,
  type Occurrence,
  type Period,
  type ScheduledTime,
  toPeriodic,
  toScheduled,
} from "./occurrence.ts";
import { expectTimeout, waitForKey } from "./wait-for-key.ts";

/** The options that once() and oncePer() share: those of the lease on the key. */
interface RunOptions extends Omit<AcquireOptions, "reentrant"> {
  /**
   * How long to wait while an earlier run holds the key. Too small: a run is skipped although the
   * earlier one was about to end. Too large: the run may begin that late. @default 1000
   */
  readonly waitMs?: number | undefined;
}

/** Options of once(). */
export interface OnceOptions extends RunOptions, ScheduledTime {}

/** Options of oncePer(). */
export interface OncePerOptions extends RunOptions, Period {}

const { reentrant: _, ...OPTIONS_OF_LEASE } = ACQUIRE_OPTIONS;
const RUN_OPTIONS: OptionNames<RunOptions> = OPTIONS_OF_LEASE;

export const ONCE_OPTIONS: OptionNames<OnceOptions> = {
  ...RUN_OPTIONS,
  atMs: true,
  windowMs: true,
};

const ONCE_PER_OPTIONS: OptionNames<OncePerOptions> = { ...RUN_OPTIONS, everyMs: true };

/**
 * What happened to an occurrence on this machine. If it did not run, `reason` is one of:
 * - `taken`: this occurrence, or a later one, has begun on the machine `by`.
 * - `running`: an earlier run had not ended when `waitMs` had passed.
 * - `late`: by this machine's clock, more than half of `windowMs` had passed since `atMs`.
 * - `closing`: close() was called here before the work began; another machine may run it.
 */
export type OnceResult<T> =
  | { readonly ran: true; readonly value: T; readonly token: bigint }
  | {
      readonly ran: false;
      readonly reason: "taken" | "running" | "late" | "closing";
      readonly by?: string | undefined;
    };

/** The result of a run that did not take place here. */
export type Skipped = Extract<OnceResult<unknown>, { ran: false }>;

/** The work of once() and oncePer(). The lease is the one on the key; pass it to guards. */
export type OnceWork<T> = (lease: Lease) => T | Promise<T>;

export interface OnceParts extends Omit<UnrenewedSessionParts, "limitMs"> {
  readonly leases: Leases;
}

const DEFAULT_WAIT_MS = 1_000;
const LATE: Skipped = { ran: false, reason: "late" };
const CLOSING: Skipped = { ran: false, reason: "closing" };

export async function once<T>(
  parts: OnceParts,
  key: string,
  options: OnceOptions,
  work: OnceWork<T>,
): Promise<OnceResult<T>> {
  checkOptionNames("once()", options, ONCE_OPTIONS);
  const occurrence = toScheduled(key, options);
  const { atMs: _a, windowMs: _w, ...lease } = options;
  return runOnce(parts, occurrence, lease, work);
}

export async function oncePer<T>(
  parts: OnceParts,
  key: string,
  options: OncePerOptions,
  work: OnceWork<T>,
): Promise<OnceResult<T>> {
  checkOptionNames("oncePer()", options, ONCE_PER_OPTIONS);
  const occurrence = toPeriodic(key, options);
  const { everyMs: _e, ...lease } = options;
  return runOnce(parts, occurrence, lease, work);
}

function runOnce<T>(
  parts: OnceParts,
  occurrence: Occurrence,
  options: RunOptions,
  work: OnceWork<T>,
): Promise<OnceResult<T>> {
  const { key } = occurrence;
  if (typeof work !== "function")
    throw new InvalidArgumentError(
      "once() and oncePer() need a function as their last argument: (key, options, work).",
    );
  const { waitMs = DEFAULT_WAIT_MS, ...lease } = options;
  if (!isDelay(waitMs)) throw badDelay("waitMs", waitMs);
  const { roundTripMs: limitMs } = parts.leases.plan(key, lease).timing;
  if (parts.leases.findInCallChain(key) !== undefined) {
    throw new InvalidArgumentError(
      `You already hold "${key}" in this call chain, so the work could not run. Call once() or ` +
        "oncePer() outside of that lease, or use another key.",
      { resource: key },
    );
  }
  return new OnceRun({ ...parts, limitMs }, occurrence, lease).run(waitMs, work);
}

type RunParts = OnceParts & UnrenewedSessionParts;

class OnceRun {
  readonly #parts: RunParts;
  readonly #occurrence: Occurrence;
  readonly #options: AcquireOptions;
  #hasBegun = false;

  constructor(parts: RunParts, occurrence: Occurrence, options: AcquireOptions) {
    this.#parts = parts;
    this.#occurrence = occurrence;
    this.#options = options;
  }

  async run<T>(waitMs: number, work: OnceWork<T>): Promise<OnceResult<T>> {
    if (this.#isLate()) return LATE;
    const lease = await this.#acquire(waitMs);
    if (!("token" in lease)) return lease;
    try {
      // Work in flight from here on, so that close() waits while a marker is written, and a marker
      // that is not used can still be removed.
      return await lease.run(() => this.#markAndRun(lease, work));
    } catch (error) {
      // close() was called before the work began.
      if (this.#hasBegun || !isTenureError(error, "DRAINING")) throw error;
      return CLOSING;
    } finally {
      await lease.startRelease();
    }
  }

  async #markAndRun<T>(lease: HeldLease, work: OnceWork<T>): Promise<OnceResult<T>> {
    const marked = await this.#mark();
    if (!("undo" in marked)) return marked;
    try {
      // run() checks the lease again after the marker is written: a process that lost the lease in
      // the meantime does not begin.
      const value = await lease.run((held) => {
        this.#hasBegun = true;
        return work(held);
      });
      return { ran: true, value, token: lease.token };
    } finally {
      if (!this.#hasBegun) await marked.undo();
    }
  }

  /** Acquires the lease on the key, or returns why the work does not run. */
  async #acquire(waitMs: number): Promise<HeldLease | Skipped> {
    const { leases, clock } = this.#parts;
    const acquire = (options: AcquireOptions): Promise<HeldLease> =>
      leases.acquireHeld(this.#occurrence.key, options);
    const parts = { clock, acquire, findTaken: () => findTaken(this.#parts, this.#occurrence) };
    const until = clock.now() + waitMs;
    const first = await acquire({ ...this.#options, waitMs: 0 }).catch(expectTimeout);
    if ("token" in first) return first;
    const taken = await parts.findTaken();
    if (taken !== undefined) return toTakenResult(taken);
    const leftMs = until - clock.now();
    if (leftMs <= 0) return toRunningResult(first);
    const answer = await waitForKey(parts, { ...this.#options, waitMs: leftMs });
    if ("token" in answer) return answer;
    return "by" in answer ? toTakenResult(answer) : toRunningResult(answer);
  }

  #isLate(): boolean {
    return isLate(this.#occurrence, this.#parts.clock.wallNow());
  }

  /** Called under the lease on the key, so no other process writes markers. */
  async #mark(): Promise<Marked | Skipped> {
    const answer = await markBegun(this.#parts, this.#occurrence);
    if (answer.kind === "taken") return toTakenResult(answer);
    // Checked again after the marker is written: this may have taken so long that the marker of
    // another machine expired before it was read.
    if (!this.#isLate()) return answer;
    await answer.undo();
    return LATE;
  }
}

function toTakenResult({ by }: Taken): Skipped {
  return { ran: false, reason: "taken", by };
}

function toRunningResult({ heldBy }: AcquireTimeoutError): Skipped {
  return { ran: false, reason: "running", by: heldBy };
}
