// A scene: a story of an outage, played by hand instead of by a seed. The same faults come in every take; what differs is how
// the programs keep to one holder.

import type { Numbers } from "./measure.ts";
import type { Stage } from "./stage.ts";

export interface Take {
  /** A few words over its figure and its column. */
  readonly title: string;
  /** One sentence: what the programs do. */
  readonly how: string;
  readonly isTenure: boolean;
  /** Sets programs and faults in motion; returns at once. */
  readonly play: (stage: Stage) => void;
}

export interface Scene {
  /** What `npm run sim -- NAME` takes. */
  readonly name: string;
  readonly title: string;
  /** Three sentences. */
  readonly story: readonly [string, string, string];
  /** What the figures show that one would not expect; after the numbers. */
  readonly moral: string;
  /** What the clock on the wall shows at 0, where the story has times of day: seconds since midnight. */
  readonly startsAt?: number | undefined;
  readonly endsAt: number;
  /** Where the picture begins; before that nothing happens that matters. */
  readonly shownFrom?: number | undefined;
  /** What is written: "payments". */
  readonly rows: string;
  /** What a row is that two holders wrote: "paid twice". */
  readonly double?: string | undefined;
  readonly machines: readonly string[];
  readonly resource: string;
  readonly ledger: string;
  /** Tokens of the story begin behind this one. */
  readonly lastToken: bigint;
  readonly takes: readonly Take[];
  /** Which numbers are worth a row, in this order. */
  readonly shown: readonly (keyof Numbers)[];
  /** What must come out, take by take; one sentence for each thing that did not. */
  readonly expect: (numbers: readonly Numbers[]) => readonly string[];
}
