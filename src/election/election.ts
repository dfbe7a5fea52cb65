// One candidate: gets ready, queues, leads, and does it again. The walk is `#campaign`; a reign is election/reign.ts; all
// safety is the lease's. What the callbacks throw is told, waited out and tried again: nothing ends the race in silence.

import type { Timer } from "../async/clock.ts";
import { checkSignal, orAborted } from "../async/signals.ts";
import { pause } from "../async/waits.ts";
import { type Backoff, backoffMs } from "../core/backoff.ts";
import { ClosedError, isTenureError } from "../core/errors.ts";
import { checkOptionNames } from "../core/options.ts";
import type { Handover } from "../holder/handover.ts";
import type { Lease } from "../holder/lease.ts";
import type { LeaseOptions, Leases, ReadOptions } from "../holder/leases.ts";
import { READ_OPTIONS } from "../holder/option-names.ts";
import type { UnrenewedParts } from "../holder/unrenewed.ts";
import type { ReadAnswer } from "../stores/contract.ts";
import { type ElectionEvent, errorOf, warningOf } from "./events.ts";
import { RANK_STEP_MS, untilLed, untilVacantFor } from "./hold-back.ts";
import { type Leader, leaderOf, observe } from "./observe.ts";
import { type Limits, limitsOf, OBSERVE_OPTIONS } from "./options.ts";
import { findNote, leaveNote, type Note, noteOf } from "./preference.ts";
import { type Lead, Reign } from "./reign.ts";

export interface ElectionOptions extends LeaseOptions {
  /**
   * Makes this candidate ready to lead: warm caches, open files. Runs before each campaign, so that a takeover costs the
   * acquisition alone. The signal aborts when the candidacy it prepared for is over; what it started may live until then.
   */
  readonly prepare?: ((signal: AbortSignal) => unknown) | undefined;
  readonly lead: Lead;
  /**
   * The rank of this candidate, a whole number from 0 to 20: whenever nobody leads, one of rank 0 asks at once and each
   * further rank 500 ms later. A hint: it never ends a reign, and whom the store grants the lease leads. Too large: with
   * nobody of a lower rank there, so much longer nobody leads. @default 0
   */
  readonly rank?: number | undefined;
  /** After a reign: campaign again. Off: one reign, then the election stops. @default true */
  readonly campaignAgain?: boolean | undefined;
  /** Told everything that happens. @default failures and overruns become warnings of the process */
  readonly onEvent?: ((event: ElectionEvent) => void) | undefined;
}

export interface ElectionParts extends UnrenewedParts {
  readonly leases: Leases;
  /** How long before its expiry at the store a lease ends here. */
  readonly marginMs: number;
  /** Where failures go when the caller has no `onEvent`, or it throws. */
  readonly warn: (message: string, error?: unknown) => void;
  /** May throw: then the election does not start. */
  readonly onStart: (election: Election) => void;
  readonly onStopped: (election: Election) => void;
}

export interface LeaderAnswer {
  /** Absent when nobody leads. */
  readonly leader?: Leader | undefined;
  readonly evidence: ReadAnswer["evidence"];
}

export interface ResignOptions {
  /** How long to wait for a successor. Too small: it is not seen. @default 5000; for stop() 0 */
  readonly waitMs?: number | undefined;
  /**
   * How long `lead` may go on after `stopping` has aborted; then its lease's signal aborts too. Too small: work is cut
   * short. Too large: a `lead` that ignores `stopping` leads on for so long. @default 10000
   */
  readonly drainMs?: number | undefined;
  /**
   * The holderId of the candidate that shall lead next. The others let it come first, once and for `preferredMs`. A hint:
   * when it does not come, another leads. @default nobody: the first in the queue
   */
  readonly preferred?: string | undefined;
  /**
   * How long the others hold back for `preferred`, at most 60000. Too small: it has no time to come. Too large: when it
   * is gone, nobody leads for so long. @default 2000
   */
  readonly preferredMs?: number | undefined;
}

export interface ObserveOptions {
  /** Ends the observation when it aborts. @default none: leave the loop */
  readonly signal?: AbortSignal | undefined;
}

/** How it went; `resigned: false` when it did not lead. */
export type Resignation = { readonly resigned: false } | ({ readonly resigned: true } & Handover);

export type ElectionState = "idle" | "preparing" | "campaigning" | "leading" | "stopped";

const RESIGN_WAIT_MS = 5_000;
const RETRY: Backoff = { baseMs: 200, capMs: 10_000 };
/** After this many terms in a row that `lead` ended this soon, it was most likely not meant to return. */
const BRIEF_TERMS_MAX = 3;
const BRIEF_TERM_MS = 1_000;
/** About twelve days, the most that a timer of Node can do is twice that; it is set again. */
const LONG_MS = 2 ** 30;

export class Election implements AsyncDisposable {
  readonly name: string;
  readonly #parts: ElectionParts;
  readonly #options: ElectionOptions;
  readonly #stopped = new AbortController();
  #state: ElectionState = "idle";
  #reign: Reign | undefined;
  #race: Promise<void> | undefined;
  #alive: Timer | undefined;
  #failures = 0;
  #briefTerms = 0;
  #hasWarnedOfBriefTerms = false;
  /** The last wish for another that was heeded: once is enough. */
  #heeded: bigint | undefined;

  /** The name and the lease's options have been checked by then. */
  constructor(parts: ElectionParts, name: string, options: ElectionOptions) {
    this.name = name;
    this.#parts = parts;
    this.#options = options;
  }

  get state(): ElectionState {
    return this.#state;
  }

  /** The term of this candidate's own reign, while it leads. */
  get term(): bigint | undefined {
    return this.#reign?.lease.token;
  }

  /**
   * Enters the race, and keeps the process alive until `stop()`. Calling it again has no effect. Throws ClosedError after
   * `stop()` and on a Tenure that is closed.
   */
  start(): this {
    this.#stopped.signal.throwIfAborted();
    this.#parts.leases.refuseWhenClosed();
    if (this.#race === undefined) {
      this.#parts.onStart(this);
      this.#stayAlive();
      this.#race = this.#runRace();
    }
    return this;
  }

  /**
   * Gives up leadership as planned: `stopping` aborts, `lead` finishes, the lease is released, and a successor is waited
   * for. Tells who that is and how long nobody led. Then this candidate campaigns again, at the end of the queue.
   */
  async resign(options: ResignOptions = {}): Promise<Resignation> {
    const limits = limitsOf("resign()", options, RESIGN_WAIT_MS);
    if (this.#reign === undefined) return { resigned: false };
    return { resigned: true, ...(await this.#handOver(this.#reign, limits)) };
  }

  /** Leaves the race for good; resigns first where it leads. */
  async stop(options: ResignOptions = {}): Promise<Resignation> {
    const limits = limitsOf("stop()", options, 0);
    // The reign hears of it first, so that it ends as planned.
    const handover = this.#reign && this.#handOver(this.#reign, limits);
    this.#stopped.abort(ClosedError.from({ what: `The election "${this.name}"` }));
    const result = await handover;
    // A `lead` that ends neither by itself nor by its signal is reported, not waited for.
    if (result?.release !== "overrun") await this.#race;
    this.#ended();
    return result === undefined ? { resigned: false } : { resigned: true, ...result };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Who leads, by one read, with what the answer rests on. */
  async leader(options: ReadOptions = {}): Promise<LeaderAnswer> {
    checkOptionNames("leader()", options, READ_OPTIONS);
    const { holder, evidence } = await this.#parts.leases.read(this.name, options);
    return { leader: leaderOf(holder), evidence };
  }

  /** Every leader by push, beginning with the present one; undefined whenever nobody leads. */
  observe(options: ObserveOptions = {}): AsyncGenerator<Leader | undefined, void, undefined> {
    checkOptionNames("observe()", options, OBSERVE_OPTIONS);
    return observe(this.#parts.leases, this.name, checkSignal(options.signal));
  }

  async #handOver(reign: Reign, limits: Limits): Promise<Handover> {
    const { preference, ...handover } = limits;
    if (preference === undefined) return reign.resign(handover);
    const { preferred } = preference;
    const { drainMs } = handover;
    const isKnown = await leaveNote(this.#parts, this.name, { ...preference, drainMs }).then(
      () => true,
      // A wish that cannot be left is no reason to stay.
      (error: unknown) => {
        this.#tell({ type: "preferenceFailed", error });
        return false;
      },
    );
    return reign.resign(isKnown ? { ...handover, preferred } : handover);
  }

  async #runRace(): Promise<void> {
    const { signal } = this.#stopped;
    try {
      do await this.#campaign();
      while (this.#options.campaignAgain !== false && !signal.aborted);
    } catch {
      // What ended the race: stop(), or close(). Everything else was told and waited out where it happened.
    }
    this.#ended();
  }

  /** Ready, in the queue, on the throne, and off it. Rejects only when the race is over. */
  async #campaign(): Promise<void> {
    const { signal } = this.#stopped;
    const candidacy = new AbortController();
    const onStop = (): void => candidacy.abort(signal.reason);
    signal.addEventListener("abort", onStop, { once: true });
    try {
      await this.#becomeReady(candidacy.signal);
      const lease = await this.#win();
      // Stopped when the grant was already ours: nobody would tell a reign that begins now.
      if (signal.aborted) return void (await lease.release());
      // What was prepared is for `lead`, which ends in its own time.
      signal.removeEventListener("abort", onStop);
      await this.#lead(lease);
    } finally {
      signal.removeEventListener("abort", onStop);
      candidacy.abort();
    }
  }

  async #becomeReady(signal: AbortSignal): Promise<void> {
    const prepare = async (): Promise<unknown> => this.#options.prepare?.(signal);
    for (;;) {
      signal.throwIfAborted();
      this.#state = "preparing";
      try {
        await orAborted(prepare(), signal);
        return;
      } catch (error) {
        await this.#waitOut((retryInMs) => ({ type: "prepareFailed", error, retryInMs }));
      }
    }
  }

  async #win(): Promise<Lease> {
    this.#state = "campaigning";
    this.#tell({ type: "campaigning" });
    for (;;) {
      try {
        // Asked for at the same time as the grant, so that a takeover does not take longer for it.
        let note: Promise<Note | undefined> | undefined;
        const onAsk = (): void => {
          note = findNote(this.#parts, this.name);
        };
        const lease = await this.#ask(onAsk);
        if (lease !== undefined && !(await this.#letPass(lease, await note))) return lease;
      } catch (error) {
        if (isTenureError(error, "CLOSED")) throw error;
        await this.#waitOut((retryInMs) => ({ type: "campaignFailed", error, retryInMs }));
      }
    }
  }

  /** The lease, when it is this candidate's time to ask; undefined when somebody was quicker. */
  async #ask(onAsk: () => void): Promise<Lease | undefined> {
    const {
      rank = 0,
      prepare: _p,
      lead: _l,
      campaignAgain: _c,
      onEvent: _e,
      ...lease
    } = this.#options;
    const { leases } = this.#parts;
    const { signal } = this.#stopped;
    const first = { ...lease, waitMs: Number.POSITIVE_INFINITY, signal, onAsk };
    if (rank === 0) return leases.acquire(this.name, first);
    let waitMs = 0;
    await untilVacantFor(this.#watching(), async () => {
      const note = await findNote(this.#parts, this.name);
      const isWished = note?.preferred === leases.holderId;
      // Those before it in the queue let it pass, each in its turn.
      waitMs = isWished ? note.preferredMs : 0;
      return isWished ? 0 : rank * RANK_STEP_MS;
    });
    return leases
      .acquire(this.name, { ...lease, waitMs, signal, onAsk })
      .catch((error: unknown) => {
        if (isTenureError(error, "ACQUIRE_TIMEOUT")) return undefined;
        throw error;
      });
  }

  /** True when the lease was given up for the one that is wished for, and that one has come or had its time. */
  async #letPass(lease: Lease, note: Note | undefined): Promise<boolean> {
    const { leases } = this.#parts;
    if (note === undefined || note.token === this.#heeded) return false;
    this.#heeded = note.token;
    const { preferred, preferredMs } = note;
    if (preferred === leases.holderId) {
      // Fulfilled. Where this gets lost, each of the others heeds it once more for nothing.
      void leases.revoke(noteOf(this.name)).catch(() => undefined);
      return false;
    }
    await lease.release();
    this.#tell({ type: "yielded", to: preferred });
    await untilLed(this.#watching(), preferred, preferredMs);
    return true;
  }

  #watching(): Parameters<typeof untilLed>[0] {
    const { leases, clock } = this.#parts;
    return { leases, clock, name: this.name, signal: this.#stopped.signal };
  }

  async #lead(lease: Lease): Promise<void> {
    const { clock, marginMs } = this.#parts;
    const tell = (event: ElectionEvent): void => this.#tell(event);
    const reign = new Reign({ lease, lead: this.#options.lead, clock, marginMs, tell });
    this.#reign = reign;
    this.#state = "leading";
    const term = lease.token;
    tell({ type: "elected", term });
    const electedAt = clock.now();
    const end = await reign.run();
    this.#reign = undefined;
    if (end.kind === "failed") {
      const { error } = end;
      await this.#waitOut((retryInMs) => ({ type: "leadFailed", term, error, retryInMs }));
      return;
    }
    this.#failures = 0;
    // Others get their chance, and a `lead` that has nothing to do does not keep the store busy.
    if (end.kind === "returned" && this.#options.campaignAgain !== false) {
      this.#countBriefTerm(clock.now() - electedAt);
      await pause(clock, RETRY.baseMs, this.#stopped.signal);
    }
  }

  /** Warns once about a `lead` that starts work and returns: each return resigns, and the work it started goes on. */
  #countBriefTerm(ledMs: number): void {
    this.#briefTerms = ledMs < BRIEF_TERM_MS ? this.#briefTerms + 1 : 0;
    if (this.#briefTerms < BRIEF_TERMS_MAX || this.#hasWarnedOfBriefTerms) return;
    this.#hasWarnedOfBriefTerms = true;
    this.#parts.warn(
      `Election "${this.name}": lead returned within ${BRIEF_TERM_MS} ms of being elected, ${this.#briefTerms} times in a row. ` +
        "Returning resigns, and this candidate then campaigns again. If lead starts work that goes on, wait in lead until " +
        "`stopping`, its second argument, aborts. If one term is enough, set campaignAgain: false.",
    );
  }

  /** Tells of a failure and lets time pass; rejects when the race ends meanwhile. */
  async #waitOut(event: (retryInMs: number) => ElectionEvent): Promise<void> {
    const { clock, random } = this.#parts;
    const { signal } = this.#stopped;
    signal.throwIfAborted();
    this.#failures += 1;
    const retryInMs = backoffMs(RETRY, this.#failures, random.next());
    this.#tell(event(retryInMs));
    await pause(clock, retryInMs, signal);
  }

  #tell(event: ElectionEvent): void {
    const { onEvent = (told: ElectionEvent) => this.#warn(told) } = this.#options;
    try {
      onEvent(event);
    } catch (error) {
      this.#parts.warn(`onEvent of the election "${this.name}" failed.`, error);
    }
  }

  #warn(event: ElectionEvent): void {
    const told = warningOf(event);
    if (told !== undefined) this.#parts.warn(`Election "${this.name}": ${told}.`, errorOf(event));
  }

  #stayAlive(): void {
    this.#alive = this.#parts.clock.setTimer(() => this.#stayAlive(), LONG_MS, { keepAlive: true });
  }

  #ended(): void {
    if (this.#state === "stopped") return;
    this.#state = "stopped";
    this.#parts.onStopped(this);
    this.#alive?.cancel();
    this.#stopped.abort(ClosedError.from({ what: `The election "${this.name}"` }));
    this.#tell({ type: "stopped" });
  }
}
