// A scene is the story of an outage with planned faults instead of faults drawn from a seed. The
// same faults occur in every take. The takes differ in how the programs ensure that there is one
// holder.

import type { Numbers } from "./measure.ts";
import type { Stage } from "./stage.ts";

export interface Take {
  /** A short title for its figure and its column. */
  readonly title: string;
  /** One sentence that says what the programs do. */
  readonly how: string;
  readonly isTenure: boolean;
  /** Starts the programs and schedules the faults. Returns immediately. */
  readonly play: (stage: Stage) => void;
}

export interface Scene {
  /** The argument of `npm run sim -- NAME`. */
  readonly name: string;
  readonly title: string;
  /** Three sentences. */
  readonly story: readonly [string, string, string];
  /** What is surprising about the figures. Printed after the numbers. */
  readonly moral: string;
  /** The time of day at instant 0, in seconds since midnight, if the story has times of day. */
  readonly startsAt?: number | undefined;
  /** The instant at which every take ends, in milliseconds, like all instants here. */
  readonly endsAt: number;
  /** The instant at which the picture begins. Nothing that matters happens before it. */
  readonly shownFrom?: number | undefined;
  /** What is written, such as "payments". */
  readonly rows: string;
  /** How a row is described that two holders wrote, such as "paid twice". */
  readonly double?: string | undefined;
  readonly machines: readonly string[];
  /** The resource that the machines compete for. */
  readonly resource: string;
  /** What the story calls the service that receives the rows. Its guard compares tokens. */
  readonly ledger: string;
  /** The last token before the story begins. */
  readonly lastToken: bigint;
  readonly takes: readonly Take[];
  /** Which numbers are shown, in this order. */
  readonly shown: readonly (keyof Numbers)[];
  /**
   * Checks the numbers of all takes. Returns one sentence for each expectation that was not met.
   */
  readonly expect: (numbers: readonly Numbers[]) => readonly string[];
}
