// What the proof and its holders say to each other, and the numbers both go by.

import type { Place } from "./writers.ts";

export const RESOURCE = "settlement";
/** Short, with explicit bounds, as anything below three seconds must have. */
export const TIMING = { ttlMs: 800, clockErrorMs: 10, roundTripMs: 60 } as const;
/** So many writes, and the holder is in full swing. */
export const WARM = 10;

export interface Setting {
  /** The file of the lease store. */
  readonly leases: string;
  readonly place: Place;
}

export type Order =
  | { readonly do: "begin"; readonly paceMs: number }
  | { readonly do: "cut" }
  /** Write so many times more, then tell. */
  | { readonly do: "finish"; readonly attempts: number };

export type Told =
  | { readonly event: "ready" }
  | { readonly event: "warm" }
  | {
      readonly event: "finished";
      readonly refused: number;
      readonly accepted: number;
      readonly failure: string;
    };
