// The messages between `npm run proof` (main.ts and trials.ts) and the holder process that it stops
// or cuts off (holder.ts), and the numbers that both use.

import type { WriterSettings } from "./writers.ts";

export const RESOURCE = "settlement";
/** Short, with explicit bounds, as a ttl below three seconds requires. */
export const TIMING = { ttlMs: 800, clockErrorMs: 10, roundTripMs: 60 } as const;
/** The holder reports "warm" after this many accepted writes. The fault begins only then. */
export const WARM_WRITES = 10;

export interface HolderSettings {
  /** The file of the lease store. */
  readonly leases: string;
  readonly writer: WriterSettings;
}

export type Order =
  | { readonly do: "begin"; readonly paceMs: number }
  /** From now on no request of this process reaches the lease store. It continues to write. */
  | { readonly do: "cut" }
  /** Write this many times more, then report. */
  | { readonly do: "finish"; readonly attempts: number };

export type Report =
  | { readonly event: "ready" }
  | { readonly event: "warm" }
  | {
      readonly event: "finished";
      readonly refused: number;
      readonly accepted: number;
      readonly failure: string;
    };
