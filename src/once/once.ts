// One run per fire, across all machines. The lease on the key is held while the work runs, for its token and against overlap;
// that the fire was had is a mark (once/marks.ts) which outlives the work, so that a machine whose clock is late finds it.

import type { Clock } from "../async/clock.ts";
import { badDelay, isDelay } from "../async/waits.ts";
import { type AcquireTimeoutError, InvalidArgumentError, isTenureError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import type { Lease } from "../holder/lease.ts";
import type { AcquireOptions, Leases } from "../holder/leases.ts";
import { ACQUIRE_OPTIONS } from "../holder/option-names.ts";
import type { UnrenewedParts } from "../holder/unrenewed.ts";
import { checkFire, type Due, type Fire, isLate } from "./fire.ts";
import { busy, waitInLine } from "./line.ts";
import { type Marked, markFire, type Taken, whoRan } from "./marks.ts";

export interface OnceOptions extends AcquireOptions, Fire {
  /**
   * How long to wait while an earlier run still holds the key. Too small: a fire is skipped because the last run, or a
   * machine that only looks, was about to let go. Too large: the run begins so late. @default 1000
   */
  readonly waitMs?: number | undefined;
}

export const ONCE_OPTIONS: OptionNames<OnceOptions> = {
  ...ACQUIRE_OPTIONS,
  atMs: true,
  windowMs: true,
};

/**
 * What became of a fire here. `taken`: it, or a later one, has been run or is being run, by `by`. `running`: an earlier run
 * had not ended when `waitMs` was over. `late`: by this machine's clock more than half of the window had passed. `closing`:
 * close() was called here before the work had begun; another may run it.
 */
export type OnceResult<T> =
  | { readonly ran: true; readonly value: T; readonly token: bigint }
  | {
      readonly ran: false;
      readonly reason: "taken" | "running" | "late" | "closing";
      readonly by?: string | undefined;
    };

export type Skipped = Extract<OnceResult<unknown>, { ran: false }>;

export type OnceWork<T> = (lease: Lease) => T | Promise<T>;

export interface OnceParts extends Omit<UnrenewedParts, "limitMs"> {
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
  const due = checkFire(key, options);
  if (typeof work !== "function")
    throw new InvalidArgumentError("once(key, fire, work) needs a function as its last argument.");
  const { atMs: _a, windowMs: _w, waitMs = DEFAULT_WAIT_MS, ...lease } = options;
  if (!isDelay(waitMs)) throw badDelay("waitMs", waitMs);
  const { roundTripMs: limitMs } = parts.leases.plan(key, lease).timing;
  return new Once({ ...parts, limitMs }, due, lease).run(waitMs, work);
}

class Once {
  readonly #parts: OnceParts & UnrenewedParts;
  readonly #clock: Clock;
  readonly #due: Due;
  readonly #options: AcquireOptions;
  #hasBegun = false;

  constructor(parts: OnceParts & UnrenewedParts, due: Due, options: AcquireOptions) {
    this.#parts = parts;
    this.#clock = parts.clock;
    this.#due = due;
    this.#options = options;
  }

  async run<T>(waitMs: number, work: OnceWork<T>): Promise<OnceResult<T>> {
    if (isLate(this.#due, this.#clock.wallNow())) return LATE;
    const lease = await this.#acquire(waitMs);
    if (!("token" in lease)) return lease;
    try {
      // As work in flight from here on: close() waits for a claim, too, and one that is not used can still be given back.
      return await lease.run(() => this.#claimAndRun(lease, work));
    } catch (error) {
      // close() came before the work: it is not begun any more, and nobody is kept from it.
      if (this.#hasBegun || !isTenureError(error, "DRAINING")) throw error;
      return CLOSING;
    } finally {
      await lease.release();
    }
  }

  async #claimAndRun<T>(lease: Lease, work: OnceWork<T>): Promise<OnceResult<T>> {
    const claim = await this.#claim();
    if (!("giveBack" in claim)) return claim;
    try {
      // Looks at the lease again, behind the mark: whoever lost it meanwhile does not begin.
      const value = await lease.run((held) => {
        this.#hasBegun = true;
        return work(held);
      });
      return { ran: true, value, token: lease.token };
    } finally {
      if (!this.#hasBegun) await claim.giveBack();
    }
  }

  /** The lease on the key, or why there is none. */
  async #acquire(waitMs: number): Promise<Lease | Skipped> {
    const { leases, clock } = this.#parts;
    const acquire = (options: AcquireOptions): Promise<Lease> =>
      leases.acquire(this.#due.key, options);
    const look = (): Promise<Taken | undefined> => whoRan(this.#parts, this.#due);
    const until = clock.now() + waitMs;
    const first = await acquire({ ...this.#options, waitMs: 0 }).catch(busy);
    if ("token" in first) return first;
    const taken = await look();
    if (taken !== undefined) return skippedFor(taken);
    const leftMs = until - clock.now();
    if (leftMs <= 0) return runningBy(first);
    const answer = await waitInLine({ clock, acquire, look }, { ...this.#options, waitMs: leftMs });
    if ("token" in answer) return answer;
    return "by" in answer ? skippedFor(answer) : runningBy(answer);
  }

  /** Under the lease on the key, so that nobody else makes marks. */
  async #claim(): Promise<Marked | Skipped> {
    const answer = await markFire(this.#parts, this.#due);
    if (answer.kind === "taken") return skippedFor(answer);
    // After the mark, not only before: asking may have taken so long that the mark of another machine was over meanwhile.
    if (!isLate(this.#due, this.#clock.wallNow())) return answer;
    await answer.giveBack();
    return LATE;
  }
}

function skippedFor({ by }: Taken): Skipped {
  return { ran: false, reason: "taken", by };
}

function runningBy({ heldBy }: AcquireTimeoutError): Skipped {
  return { ran: false, reason: "running", by: heldBy };
}
