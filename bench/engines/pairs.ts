// Acquire + release without contention: Tenure, the floor and the peers in short slices, one behind the other and over again,
// in another order each time, so that whatever else the machine does hits them all. What counts is the median of the ratios within one round.

import { connect } from "tenure";
import { FLOOR_SHARE } from "../compare/rows.ts";
import { atLeast, median, type Row, rotated, spread } from "../support.ts";
import type { BenchServer, EngineBench, Floor, Peer } from "./engine.ts";

export interface PairSettings {
  readonly rounds: number;
  readonly sliceMs: number;
}

interface Contender {
  readonly name: string;
  pair(index: number): Promise<void>;
  /** Times as fast as this one; undefined for those that are measured for information. */
  readonly share?: number | undefined;
  readonly lacks?: string | undefined;
}

const WIDTHS = [1, 64];
const FLOOR = "floor";

export async function pairRows<S extends BenchServer>(
  engine: EngineBench<S>,
  server: S,
  settings: PairSettings,
): Promise<Row[]> {
  const tenure = await connect(engine.openStore?.(server) ?? server.url);
  const floor = await engine.openFloor?.(server);
  const peers = await engine.openPeers(server);
  const others = contenders(engine, floor, peers);
  const ours: Contender = {
    name: "tenure",
    pair: async (index) => {
      const lease = await tenure.tryAcquire(`pair/${index}`);
      if (lease === undefined) throw new Error("busy, though nobody competes");
      await lease.release();
    },
  };
  try {
    const rows: Row[] = [];
    for (const width of WIDTHS) {
      const rates = await measure([ours, ...others], width, settings);
      rows.push(...rowsOf(width, ours, others, rates));
    }
    return rows;
  } finally {
    await tenure.close();
    for (const other of [...(floor === undefined ? [] : [floor]), ...peers]) await other.close();
  }
}

function contenders<S extends BenchServer>(
  engine: EngineBench<S>,
  floor: Floor | undefined,
  peers: readonly Peer[],
): Contender[] {
  const list: Contender[] = peers.map((peer) => ({
    name: peer.name,
    pair: (index) => peer.pair(index),
    share: engine.peerShare,
    lacks: peer.lacks,
  }));
  if (floor === undefined) return list;
  return [{ name: FLOOR, pair: (index) => floor.pair(index), share: FLOOR_SHARE }, ...list];
}

async function measure(
  all: readonly Contender[],
  width: number,
  { rounds, sliceMs }: PairSettings,
): Promise<Map<string, number[]>> {
  const rates = new Map<string, number[]>(all.map(({ name }) => [name, []]));
  // Two rounds warm up the compiler and the caches.
  for (let round = -2; round < rounds; round += 1) {
    for (const { name, pair } of rotated(all, round + 2)) {
      const rate = await slice(pair, width, sliceMs);
      if (round >= 0) rates.get(name)?.push(rate);
    }
  }
  return rates;
}

export async function slice(
  pair: (index: number) => Promise<void>,
  width: number,
  sliceMs: number,
): Promise<number> {
  const start = performance.now();
  let pairs = 0;
  const one = async (index: number): Promise<void> => {
    while (performance.now() - start < sliceMs) {
      await pair(index);
      pairs += 1;
    }
  };
  await Promise.all(Array.from({ length: width }, (_, index) => one(index)));
  return (pairs * 1000) / (performance.now() - start);
}

function rowsOf(
  width: number,
  ours: Contender,
  others: readonly Contender[],
  rates: ReadonlyMap<string, number[]>,
): Row[] {
  const of = (name: string): number[] => rates.get(name) ?? [];
  const show = (name: string): Row => ({
    what: `${width} in flight: ${name} (${spread(of(name), 0)})`,
    measured: `${Math.round(median(of(name)))} pairs/s`,
  });
  const ratios = others.map(({ name, share, lacks }): Row => {
    const each = of(ours.name).map((rate, round) => rate / (of(name)[round] ?? Number.NaN));
    const what = `${width} in flight: ratio to ${name} (${spread(each)})`;
    const times = (value: number): string => `${value.toFixed(2)}x`;
    const row: Row =
      share === undefined
        ? { what, measured: times(median(each)) }
        : atLeast(what, median(each), share, times);
    if (name === FLOOR || median(each) >= 1) return row;
    return { ...row, ahead: { peer: name, ...(lacks === undefined ? {} : { why: lacks }) } };
  });
  return [show(ours.name), ...others.map(({ name }) => show(name)), ...ratios];
}
