// What happened in one take of a scene: the trace that every world has, and beside it what the programs believed and what
// reached the ledger. The numbers, the told timeline and the picture are made from this and from nothing else.

import { Trace, type TraceEvent, type TraceEventData } from "../world/trace.ts";

export type Belief =
  /** From here on the program takes itself for the holder. `looks`: it looks at its own deadline before every act. */
  | { readonly kind: "holds"; readonly token: bigint; readonly looks: boolean }
  /** It knows that it is over. */
  | { readonly kind: "stops"; readonly why: string; readonly isPlanned: boolean }
  /** Its own end of the lease, as a true instant, if its clock runs on as it does now. */
  | { readonly kind: "deadline"; readonly until: number }
  /** It wanted to act, looked, and did not. */
  | { readonly kind: "heldBack"; readonly why: string }
  /** A write arrived. `isStale`: the store had granted a higher token. `isDouble`: another had written this row. */
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
  /** Worth a line; with `mark` also a sign in the picture, which lasts for `ms`. */
  | {
      readonly kind: "says";
      readonly text: string;
      readonly mark?: string | undefined;
      readonly ms?: number | undefined;
    };

export type Told = (Belief | TraceEventData) & { readonly at: number; readonly who: string };

export class Tale extends Trace {
  /** Both kinds of events, in the order in which they happened. */
  readonly told: Told[] = [];
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
    this.told.push({ ...(this.events.at(-1) as TraceEvent) });
    if (happening.kind === "storeGranted" && happening.token > this.#newestToken)
      this.#newestToken = happening.token;
    if (happening.kind === "renewed")
      for (const listener of this.#onRenewal.get(who) ?? []) listener();
  }

  tell(who: string, belief: Belief): void {
    this.told.push({ at: this.#now(), who, ...belief });
  }

  /** Called when a renewal of this program was answered, before the program has dealt with the answer. */
  onRenewal(who: string, listener: () => void): void {
    this.#onRenewal.set(who, [...(this.#onRenewal.get(who) ?? []), listener]);
  }
}
