// What each engine's locks are compared in: pairs of one process, handover, throughput on one lock, failover.

import { slice } from "../engines/pairs.ts";
import { gaps } from "../rolling-restart.ts";
import {
  type Comparison,
  type Contestant,
  type Measured,
  milliseconds,
  perSecond,
} from "./comparison.ts";
import { type Entrant, failoverReasons, reasonsOf } from "./entrants.ts";
import {
  contended,
  FAILOVER_TTL_MS,
  failover,
  firstLock,
  handover,
  type Place,
} from "./processes.ts";

interface Unlock {
  (): Promise<unknown>;
  /** What the library's interface gives out with this grant, where it gives anything. */
  given?(): unknown;
}

/** What a library gives, by bench/overlap/libraries. */
export interface Locker {
  lock(resource: string): Promise<Unlock>;
  close(): unknown;
}

/** The same number of bare round trips. */
export interface Floor {
  pair(index: number): Promise<void>;
}

export interface Effort {
  /** So many a round, so long each, the contestants in turn: minutes apart, a machine is not the same any more. */
  readonly slices: number;
  readonly sliceMs: number;
  readonly warmUpMs: number;
  readonly handovers: number;
  readonly processes: readonly number[];
  readonly contendMs: number;
  readonly restarts: number;
  /** Of each library, all at the same time. */
  readonly failovers: number;
}

const TTL_MS = 10_000;
/** What a waiter may take beyond what the ttl allows: a server looks for what has run out, and a waiter asks again. */
const FAILOVER_EXTRA_MS = 1_000;
/** About what a program takes to start. */
const BACK_MS = 300;

export async function openLocker({ library, url }: Place): Promise<Locker> {
  const module = await import(`../overlap/libraries/${library}.mjs`);
  return module.locker({ url, ttlMs: TTL_MS });
}

interface Field {
  readonly engine: string;
  readonly entrants: readonly Entrant[];
  /** One that is open, by entrant. */
  readonly lockers: ReadonlyMap<Entrant, Locker>;
  readonly floor?: Floor | undefined;
}

export function lockComparisons(field: Field, effort: Effort): Comparison[] {
  const { engine, entrants } = field;
  const reasons = reasonsOf(entrants, "asksMore");
  const alone = reasonsOf(entrants, "lacksAlone");
  const all = (measure: (entrant: Entrant) => Promise<Measured>): Contestant[] =>
    entrants.map((entrant) => ({
      ...{ name: entrant.name, kind: entrant.kind, measure: () => measure(entrant) },
    }));
  const single = (figure: string, measure: (entrant: Entrant) => Promise<number>): Contestant[] =>
    all(async (entrant) => ({ figures: { [figure]: await measure(entrant) } }));
  return [
    ...[1, 64].map((width) => pairs(field, width, { ...effort, reasons: alone })),
    {
      title: `${engine}: handover between two processes`,
      method: `${effort.handovers} handovers a round, from the call of release in one to the end of acquire in the other, at any phase of its waiting.`,
      each: milliseconds,
      contestants: all(async (entrant) => ({ each: await handover(entrant, effort.handovers) })),
      isLong: true,
      reasons,
    },
    ...effort.processes.map((count) => ({
      title: `${engine}: ${count} processes on one lock`,
      method: `Each takes it and gives it back for ${effort.contendMs} ms, and waits as its library does.`,
      figures: { "locks taken": perSecond },
      contestants: single("locks taken", (entrant) => contended(entrant, count, effort.contendMs)),
      isLong: true,
      reasons: reasonsOf(entrants, "lacksInContention"),
    })),
    {
      title: `${engine}: failover`,
      method: `From SIGKILL of the holder to the grant of a process that waits, ttl ${FAILOVER_TTL_MS / 1_000} s; ${effort.failovers} of each library, all at the same time, each on a lock of its own. The holder has been kept up by its library's own renewal for two ttls (verrou's by a timer of ours), and dies at phases that are evenly spread over the interval at which that library renews, the same shares of it for all. Asked is what the ttl allows; ratios are for information.`,
      each: milliseconds,
      contestants: all(async (entrant) => {
        const { renewEveryMs = () => Number.POSITIVE_INFINITY } = entrant;
        const effortOfOne = {
          trials: effort.failovers,
          renewEveryMs: renewEveryMs(FAILOVER_TTL_MS),
        };
        return { each: await failover(entrant, effortOfOne) };
      }),
      together: true,
      isOnce: true,
      isInformative: true,
      limits: { worst: FAILOVER_TTL_MS + FAILOVER_EXTRA_MS },
      reasons: failoverReasons(entrants, FAILOVER_TTL_MS),
    },
    {
      title: `${engine}: planned restarts, nobody leads`,
      method: `5 processes, ${effort.restarts} times the leader resigns, closes and is back after ${BACK_MS} ms, ttl 10 s; from the end of one reign to the beginning of the next. Without an election of its own a library's lock is the leadership.`,
      each: milliseconds,
      contestants: all(async ({ url, library }) => ({
        each: await gaps(url, effort.restarts, { library, backMs: BACK_MS }),
      })),
      isLong: true,
      reasons,
    },
    {
      title: `${engine}: start of a process to its first lock`,
      method: "Starting Node, importing, connecting, the first acquire.",
      figures: { "first lock": milliseconds },
      contestants: single("first lock", firstLock),
      isLong: true,
      reasons: alone,
    },
  ];
}

function pairs(
  { engine, entrants, lockers, floor }: Field,
  width: number,
  effort: Effort & { readonly reasons: Record<string, string> },
): Comparison {
  const { reasons, slices, sliceMs, warmUpMs } = effort;
  const contestant = (
    { name, kind }: Pick<Contestant, "name" | "kind">,
    pair: (index: number) => Promise<void>,
  ): Contestant => ({
    ...{ name, kind },
    warmUp: () => slice(pair, width, warmUpMs),
    measure: async () => ({ figures: { pairs: await slice(pair, width, sliceMs) } }),
  });
  const contestants = entrants
    .filter(({ widthMax = width }) => widthMax >= width)
    .map((entrant) =>
      contestant(entrant, async (index) => {
        const unlock = await lockers.get(entrant)?.lock(`pair-${index}`);
        await unlock?.();
      }),
    );
  if (floor !== undefined)
    contestants.push(
      contestant({ name: "the floor", kind: "floor" }, (index) => floor.pair(index)),
    );
  return {
    title: `${engine}: acquire + release, ${width} in flight`,
    method: `${slices} slices of ${sliceMs} ms a round, the contestants in turn, each slice in another order; ratios within one slice.`,
    figures: { pairs: perSecond },
    ...{ contestants, slices, reasons },
  };
}
