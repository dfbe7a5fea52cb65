// What a topic of the benchmarks is, and what all topics get from the command line.

import type { Section } from "./results.ts";
import type { Engine, Servers } from "./servers.ts";

export interface Context {
  /** Measure just enough to see that everything works, and the order of magnitude. */
  readonly quick: boolean;
  readonly withPeers: boolean;
  readonly engines: readonly Engine[];
  readonly servers: Servers;
}

/** Yields each table when it is complete. */
export type Topic = (context: Context) => AsyncGenerator<Section>;
