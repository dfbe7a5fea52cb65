// What a topic of the benchmarks is, and what all topics get from the command line.

import type { Contestant, Measured } from "./comparison.ts";
import type { Commands } from "./peers/build.ts";
import { type Contender, contendersOn, findReason, type ReasonTopic } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import type { Engine, Servers } from "./servers.ts";
import { Lockers, type Worker } from "./workers.ts";

export interface Context {
  /** Measure just enough to see that everything works, and the order of magnitude. */
  readonly quick: boolean;
  readonly withPeers: boolean;
  /** The workers of the peers in other languages. */
  readonly commands: Commands;
  readonly engines: readonly Engine[];
  readonly servers: Servers;
}

/** Yields each table when it is complete. */
export type Topic = (context: Context) => AsyncGenerator<Section>;

type Measurement = Pick<Contestant, "warmUp" | "measure" | "close">;

interface On {
  readonly engine: Engine;
  readonly url: string;
  readonly topic: ReasonTopic;
  /** Also the peers in other languages, whose workers know the orders of lockers. @default false */
  readonly allLanguages?: boolean;
}

/**
 * Tenure and, if wanted, the peers of an engine. Tenure has to be at least as good as each peer.
 */
export function toContestants(
  { withPeers, commands }: Context,
  { engine, url, topic, allLanguages = false }: On,
  toMeasurement: (contender: Contender) => Measurement,
): Contestant[] {
  const contenders = contendersOn(engine, url, withPeers, allLanguages ? commands : new Map());
  return contenders.map((contender) => ({
    name: contender.name,
    kind: contender.kind,
    target: contender.kind === "peer" ? 1 : undefined,
    reason: findReason(contender, topic),
    ...toMeasurement(contender),
  }));
}

const WARM_UP_MS = 500;

/**
 * Keeps the processes of a contender over all rounds, so that each round measures compiled code.
 * `act` is called before the first round, too, for as long as the library needs to warm up.
 */
export function withKeptLockers(
  contender: Contender,
  { count, quick }: { readonly count: number; readonly quick: boolean },
  plan: {
    readonly ms: number;
    act(workers: readonly [Worker, ...Worker[]], ms: number): Promise<Measured>;
  },
): Measurement {
  let lockers: Lockers | undefined;
  const act = async (ms: number): Promise<Measured> => {
    lockers ??= await Lockers.start(contender, { count });
    return plan.act(lockers.workers, ms);
  };
  return {
    warmUp: () => act(quick ? WARM_UP_MS : (contender.peer?.warmUpMs ?? WARM_UP_MS)),
    measure: () => act(plan.ms),
    close: async () => lockers?.end(),
  };
}
