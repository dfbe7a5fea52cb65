// What a topic of the benchmarks is, and what all topics get from the command line.

import type { Contestant, Measured } from "./comparison.ts";
import { type Contender, contendersOn, findReason, type ReasonTopic } from "./peers/peers.ts";
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

/**
 * Tenure and, if wanted, the peers of an engine. Tenure has to be at least as good as each peer.
 */
export function toContestants(
  { withPeers }: Context,
  target: { readonly engine: Engine; readonly url: string; readonly topic: ReasonTopic },
  measure: (contender: Contender) => Promise<Measured>,
): Contestant[] {
  return contendersOn(target.engine, target.url, withPeers).map((contender) => ({
    name: contender.name,
    kind: contender.kind,
    target: contender.kind === "peer" ? 1 : undefined,
    reason: findReason(contender, target.topic),
    measure: () => measure(contender),
  }));
}
