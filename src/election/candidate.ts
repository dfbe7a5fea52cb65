// One candidate of an election: prepares, queues for the lease, leads, and campaigns again.
// #campaign is one round of that; term.ts is the leading part. All safety comes from the lease.
// Errors thrown by the callbacks are reported and retried after a pause, so no error ends the loop
// silently.

import type { Clock, Random, Timer } from "../async/clock.ts";
import { checkSignal, orAborted } from "../async/signals.ts";
import { pause, stayAlive } from "../async/waits.ts";
import { type Backoff, backoffMs } from "../core/backoff.ts";
import { ClosedError, isTenureError } from "../core/errors.ts";
import { checkOptionNames } from "../core/options.ts";
import type { HeldLease } from "../holder/held-lease.ts";
import type { Leases } from "../holder/leases.ts";
import { READ_OPTIONS, type ReadOptions } from "../holder/options.ts";
import type {
  Election,
  ElectionOptions,
  ElectionState,
  LeaderAnswer,
  ObserveOptions,
  Resignation,
  ResignOptions,
} from "./election.ts";
import { type ElectionEvent, findError, toWarning } from "./events.ts";
import { type Leader, observe, toLeader } from "./observe.ts";
import { OBSERVE_OPTIONS, planResignation } from "./options.ts";
import { Term } from "./term.ts";

export interface CandidateParts {
  readonly leases: Leases;
  readonly clock: Clock;
  readonly random: Random;
  /** How long before its expiry at the store a lease ends here. */
  readonly marginMs: number;
  /** Receives failures if there is no `onEvent`, or if it throws. */
  readonly warn: (message: string, error?: unknown) => void;
  /** May throw: then the election does not start. */
  readonly onStart: (candidate: Candidate) => void;
  readonly onStopped: (candidate: Candidate) => void;
}

const RESIGN_WAIT_MS = 5_000;
const RETRY: Backoff = { baseMs: 200, capMs: 10_000 };
/** After this many short terms in a row, `lead` was most likely not meant to return. */
const BRIEF_TERMS_MAX = 3;
const BRIEF_TERM_MS = 1_000;

export class Candidate implements Election {
  readonly name: string;
  readonly #parts: CandidateParts;
  readonly #options: ElectionOptions;
  readonly #stopped = new AbortController();
  #state: ElectionState = "idle";
  #term: Term | undefined;
  #campaigns: Promise<void> | undefined;
  #keepAlive: Timer | undefined;
  #failures = 0;
  #briefTerms = 0;
  #hasWarnedOfBriefTerms = false;
  /** The release of the last term. No campaign waits for its answer, only the end does. */
  #releasing: Promise<void> | undefined;

  /** The name and the options must have been checked. */
  constructor(parts: CandidateParts, name: string, options: ElectionOptions) {
    this.name = name;
    this.#parts = parts;
    this.#options = options;
  }

  get state(): ElectionState {
    return this.#state;
  }

  get term(): bigint | undefined {
    return this.#term?.lease.token;
  }

  start(): this {
    this.#stopped.signal.throwIfAborted();
    this.#parts.leases.throwIfClosed();
    if (this.#campaigns === undefined) {
      this.#parts.onStart(this);
      this.#keepAlive = stayAlive(this.#parts.clock);
      this.#campaigns = this.#campaignRepeatedly();
    }
    return this;
  }

  async resign(options: ResignOptions = {}): Promise<Resignation> {
    const plan = planResignation("resign()", options, RESIGN_WAIT_MS);
    if (this.#term === undefined) return { resigned: false };
    return { resigned: true, ...(await this.#term.resign(plan)) };
  }

  async stop(options: ResignOptions = {}): Promise<Resignation> {
    const plan = planResignation("stop()", options, 0);
    // Before the signal aborts, so that the term ends as planned.
    const handover = this.#term?.resign(plan);
    this.#stopped.abort(ClosedError.from({ what: `The election "${this.name}"` }));
    const result = await handover;
    // A `lead` that ignores its signals is reported, but not waited for.
    if (result?.release !== "overrun") await this.#campaigns;
    this.#end();
    return result === undefined ? { resigned: false } : { resigned: true, ...result };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async leader(options: ReadOptions = {}): Promise<LeaderAnswer> {
    checkOptionNames("leader()", options, READ_OPTIONS);
    const { holder, evidence } = await this.#parts.leases.read(this.name, options);
    return { leader: toLeader(holder), evidence };
  }

  observe(options: ObserveOptions = {}): AsyncGenerator<Leader | undefined, void, undefined> {
    checkOptionNames("observe()", options, OBSERVE_OPTIONS);
    return observe(this.#parts.leases, this.name, checkSignal(options.signal));
  }

  async #campaignRepeatedly(): Promise<void> {
    const { signal } = this.#stopped;
    try {
      do await this.#campaign();
      while (this.#options.campaignAgain !== false && !signal.aborted);
    } catch {
      // stop() or close() was called. Other errors were reported and retried where they occurred.
    }
    await this.#releasing;
    this.#end();
  }

  /** Prepares, acquires the lease and leads for one term. Rejects only after stop() or close(). */
  async #campaign(): Promise<void> {
    const { signal } = this.#stopped;
    const candidacy = new AbortController();
    const onStop = (): void => candidacy.abort(signal.reason);
    signal.addEventListener("abort", onStop, { once: true });
    try {
      await this.#prepare(candidacy.signal);
      const lease = await this.#win();
      // stop() came after the grant. It saw no term, so a term that begins now would not end.
      if (signal.aborted) return void (await lease.release());
      // From here on the candidacy ends with `lead`, which uses what was prepared, not with stop().
      signal.removeEventListener("abort", onStop);
      await this.#lead(lease);
    } finally {
      signal.removeEventListener("abort", onStop);
      candidacy.abort();
    }
  }

  async #prepare(signal: AbortSignal): Promise<void> {
    const prepare = async (): Promise<unknown> => this.#options.prepare?.(signal);
    for (;;) {
      signal.throwIfAborted();
      this.#state = "preparing";
      try {
        await orAborted(prepare(), signal);
        return;
      } catch (error) {
        await this.#reportAndPause((retryInMs) => ({ type: "prepareFailed", error, retryInMs }));
      }
    }
  }

  async #win(): Promise<HeldLease> {
    this.#state = "campaigning";
    let isReported = false;
    const onQueued = (): void => {
      if (!isReported) this.#report({ type: "campaigning" });
      isReported = true;
    };
    const {
      rank = 0,
      prepare: _p,
      lead: _l,
      campaignAgain: _c,
      onEvent: _e,
      ...lease
    } = this.#options;
    const options = { ...lease, waitMs: Number.POSITIVE_INFINITY, signal: this.#stopped.signal };
    for (;;) {
      try {
        const won = await this.#parts.leases.acquireHeld(this.name, options, { rank, onQueued });
        onQueued();
        return won;
      } catch (error) {
        if (isTenureError(error, "CLOSED")) throw error;
        await this.#reportAndPause((retryInMs) => ({ type: "campaignFailed", error, retryInMs }));
      }
    }
  }

  async #lead(lease: HeldLease): Promise<void> {
    const { clock, marginMs } = this.#parts;
    const report = (event: ElectionEvent): void => this.#report(event);
    const running = new Term({ lease, lead: this.#options.lead, clock, marginMs, report });
    this.#term = running;
    this.#state = "leading";
    const term = lease.token;
    report({ type: "elected", term });
    const electedAt = clock.now();
    const end = await running.run();
    this.#term = undefined;
    this.#releasing = end.released;
    if (end.kind === "failed") {
      const { error } = end;
      await this.#reportAndPause((retryInMs) => ({ type: "leadFailed", term, error, retryInMs }));
      return;
    }
    this.#failures = 0;
    // The pause lets other candidates lead, and limits the load of a `lead` that returns at once.
    if (end.kind === "returned" && this.#options.campaignAgain !== false) {
      this.#countBriefTerm(clock.now() - electedAt);
      await pause(clock, RETRY.baseMs, this.#stopped.signal);
    }
  }

  /** Warns once about a `lead` that starts work and returns: it resigns, but the work continues. */
  #countBriefTerm(ledMs: number): void {
    this.#briefTerms = ledMs < BRIEF_TERM_MS ? this.#briefTerms + 1 : 0;
    if (this.#briefTerms < BRIEF_TERMS_MAX || this.#hasWarnedOfBriefTerms) return;
    this.#hasWarnedOfBriefTerms = true;
    this.#parts.warn(
      `Election "${this.name}": lead returned within ${BRIEF_TERM_MS} ms of being elected, ` +
        `${this.#briefTerms} times in a row. Returning resigns, and this candidate then campaigns ` +
        "again. If lead starts work that goes on, wait in lead until `stopping`, its second " +
        "argument, aborts. If one term is enough, set campaignAgain: false.",
    );
  }

  /** Reports a failure and waits before the next try; rejects after stop() or close(). */
  async #reportAndPause(toEvent: (retryInMs: number) => ElectionEvent): Promise<void> {
    const { clock, random } = this.#parts;
    const { signal } = this.#stopped;
    signal.throwIfAborted();
    this.#failures += 1;
    const retryInMs = backoffMs(RETRY, this.#failures, random.next());
    this.#report(toEvent(retryInMs));
    await pause(clock, retryInMs, signal);
  }

  #report(event: ElectionEvent): void {
    const { onEvent = (unhandled: ElectionEvent) => this.#warn(unhandled) } = this.#options;
    try {
      onEvent(event);
    } catch (error) {
      this.#parts.warn(`onEvent of the election "${this.name}" failed.`, error);
    }
  }

  #warn(event: ElectionEvent): void {
    const warning = toWarning(event);
    if (warning === undefined) return;
    this.#parts.warn(`Election "${this.name}": ${warning}.`, findError(event));
  }

  #end(): void {
    if (this.#state === "stopped") return;
    this.#state = "stopped";
    this.#parts.onStopped(this);
    this.#keepAlive?.cancel();
    this.#stopped.abort(ClosedError.from({ what: `The election "${this.name}"` }));
    this.#report({ type: "stopped" });
  }
}
