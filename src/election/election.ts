// The public face of an election: what a candidate is given and what it can do. candidate.ts
// implements it.

import type { Handover } from "../holder/handover.ts";
import type { Lease } from "../holder/lease.ts";
import type { LeaseOptions, ReadOptions } from "../holder/options.ts";
import type { ReadEvidence } from "../stores/contract.ts";
import type { ElectionEvent } from "./events.ts";
import type { Leader } from "./observe.ts";

/**
 * The function that runs while this process leads. `stopping` aborts when it should return: on
 * `resign()` and `stop()`, with the lease held until it has returned, and when the lease is lost.
 * `lease.signal` aborts when the lease has ended. Returning resigns.
 */
export type Lead = (lease: Lease, stopping: AbortSignal) => unknown;

/** Options of election(). */
export interface ElectionOptions extends LeaseOptions {
  /**
   * Prepares this candidate to lead: warms caches, opens files. Runs before each campaign, so that
   * a takeover costs only the acquisition. The signal aborts when the candidacy it prepared for has
   * ended; what `prepare` started may live until then.
   */
  readonly prepare?: ((signal: AbortSignal) => unknown) | undefined;
  /** Runs while this process leads. */
  readonly lead: Lead;
  /**
   * Rank of this candidate, from 0 (first) to 20. When a term ends, the waiting candidate with the
   * lowest rank leads next; candidates of the same rank lead in the order of their arrival. It
   * delays no candidate and never ends a term. Too large: this candidate leads only while no other
   * one waits. @default 0
   */
  readonly rank?: number | undefined;
  /** Whether to campaign again after a term. If false, the election stops then. @default true */
  readonly campaignAgain?: boolean | undefined;
  /** Called with every event. @default failures and overruns become process warnings */
  readonly onEvent?: ((event: ElectionEvent) => void) | undefined;
}

/** The answer of leader(). */
export interface LeaderAnswer {
  /** Absent if there is no leader. */
  readonly leader?: Leader | undefined;
  /** What the answer is based on, as in `read()`. */
  readonly evidence: ReadEvidence;
}

/** Options of resign() and stop(). */
export interface ResignOptions {
  /** How long to wait for a successor. Too small: it is not seen. @default 5000; for stop() 0 */
  readonly waitMs?: number | undefined;
  /**
   * How long `lead` may continue after `stopping` has aborted. Then the signal of its lease aborts
   * too. Too small: work is cut short. Too large: a `lead` that ignores `stopping` leads for that
   * long. @default 10000
   */
  readonly drainMs?: number | undefined;
  /**
   * The holderId of the candidate that should lead next, whatever its rank. If it is not waiting
   * when the lease is released, the next candidate in the queue leads. @default none
   */
  readonly preferred?: string | undefined;
}

/** Options of observe(). */
export interface ObserveOptions {
  /** Ends the observation when it aborts. @default none: leave the loop */
  readonly signal?: AbortSignal | undefined;
}

/** How a resignation went. `resigned` is false if this candidate did not lead. */
export type Resignation = { readonly resigned: false } | ({ readonly resigned: true } & Handover);

/** What a candidate is doing. */
export type ElectionState = "idle" | "preparing" | "campaigning" | "leading" | "stopped";

/** One candidate for leadership under a name. */
export interface Election extends AsyncDisposable {
  /** The name of the election, which is also the resource of the leader's lease. */
  readonly name: string;
  /** What this candidate is doing at this moment. */
  readonly state: ElectionState;
  /** The current term of this candidate while it leads; undefined otherwise. */
  readonly term: bigint | undefined;
  /**
   * Starts to campaign, and keeps the process alive until `stop()`. Further calls have no effect.
   * Throws ClosedError after `stop()` and on a closed Tenure.
   */
  start(): this;
  /**
   * Gives up leadership as planned: `stopping` aborts, `lead` finishes, the lease is released, and
   * the call waits for a successor. It returns that successor and how long there was no leader.
   * Then this candidate campaigns again, at the end of the queue.
   */
  resign(options?: ResignOptions): Promise<Resignation>;
  /** Stops campaigning for good. Resigns first if this candidate leads. */
  stop(options?: ResignOptions): Promise<Resignation>;
  /** Reads the current leader, with the evidence that the answer rests on. */
  leader(options?: ReadOptions): Promise<LeaderAnswer>;
  /** Yields the current leader and then every change; undefined whenever there is no leader. */
  observe(options?: ObserveOptions): AsyncGenerator<Leader | undefined, void, undefined>;
}
