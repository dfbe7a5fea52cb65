// The record of one take of a scene. It extends the trace of the simulated world by what the
// programs believed and what reached the ledger. The numbers, the text and the picture are computed
// from it alone.

import { Trace, type TraceEvent, type TraceEventData } from "../world/trace.ts";

export type Belief =
  /**
   * From here on the program believes that it holds the lease. `checksDeadline` says whether it
   * checks its own deadline before every act.
   */
  | { readonly kind: "holds"; readonly token: bigint; readonly checksDeadline: boolean }
  /** It knows that it no longer holds the lease. */
  | { readonly kind: "stops"; readonly why: string; readonly isPlanned: boolean }
  /** Its own deadline, as a true instant, assuming that its clock keeps its current rate. */
  | { readonly kind: "deadline"; readonly until: number }
  /** It wanted to act, checked, and did not. */
  | { readonly kind: "heldBack"; readonly why: string }
  /**
   * A write arrived. `isStale`: the store had granted a higher token. `isDouble`: another holder
   * had written this row.
   */
  | {
      readonly kind: "landed";
      readonly sentAt: number;
      readonly row: string;
      readonly token: bigint;
      readonly outcome: "admitted" | "refused";
      readonly isStale: boolean;
      readonly isDouble: boolean;
    }
  /** A fault on this lane, from now until then. */
  | { readonly kind: "band"; readonly label: string; readonly until: number }
  /** An event for the text. With `mark` it also appears in the picture, for `ms`. */
  | {
      readonly kind: "says";
      readonly text: string;
      readonly mark?: string | undefined;
      readonly ms?: number | undefined;
    };

export type TaleEntry = (Belief | TraceEventData) & { readonly at: number; readonly who: string };

export class Tale extends Trace {
  /** Beliefs and events of the trace, in the order in which they happened. */
  readonly entries: TaleEntry[] = [];
  readonly #now: () => number;
  readonly #onRenewal = new Map<string, (() => void)[]>();
  #newestToken = 0n;

  constructor(now: () => number) {
    super(now);
    this.#now = now;
  }

  /** The highest token that the store has granted. */
  get newestToken(): bigint {
    return this.#newestToken;
  }

  override note(who: string, happening: TraceEventData): void {
    super.note(who, happening);
    this.entries.push({ ...(this.events.at(-1) as TraceEvent) });
    if (happening.kind === "storeGranted" && happening.token > this.#newestToken)
      this.#newestToken = happening.token;
    if (happening.kind === "renewed")
      for (const listener of this.#onRenewal.get(who) ?? []) listener();
  }

  record(who: string, belief: Belief): void {
    this.entries.push({ at: this.#now(), who, ...belief });
  }

  /**
   * Called when a renewal of this program was answered, before the program has processed the
   * answer.
   */
  onRenewal(who: string, listener: () => void): void {
    this.#onRenewal.set(who, [...(this.#onRenewal.get(who) ?? []), listener]);
  }
}
