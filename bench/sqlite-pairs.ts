// SQLite acquire + release against the least that could do the same: two durable upserts with the same library and
// settings, on the same disk, in the same run.

import { join } from "node:path";
import { connect } from "tenure";
import { sqliteStore } from "tenure/stores/sqlite";
import { type Connection, loadDriver } from "../src/clients/sqlite/driver.ts";
import { FLOOR_SHARE } from "./compare/rows.ts";
import {
  atLeast,
  inTempFolder,
  median,
  type Row,
  rotated,
  type Section,
  spread,
} from "./support.ts";

const ROUNDS = 7;
const ROUND_MS = 1_000;
const UPSERT = `INSERT INTO lease (resource, holder, token, expires) VALUES (?, ?, 1, ?)
  ON CONFLICT (resource) DO UPDATE SET holder = excluded.holder, token = token + 1, expires = excluded.expires`;

export async function sqlitePairs(): Promise<Section> {
  return inTempFolder(async (folder) => {
    const driver = await loadDriver();
    const floor = driver.open(join(folder, "floor.db"));
    prepareFloor(floor);
    const upsert = floor.prepare(UPSERT);
    const tenure = await connect(
      sqliteStore({ file: join(folder, "tenure.db"), library: driver.name }),
    );
    const floorPair = async (): Promise<void> => {
      upsert.run("bench", "me", 1);
      upsert.run("bench", "", 2);
    };
    const ourPair = async (): Promise<void> => {
      const lease = await tenure.acquire("bench");
      await lease.release();
    };
    const all = [
      { rates: [] as number[], measure: () => rate(floorPair) },
      { rates: [] as number[], measure: () => rate(ourPair) },
      {
        rates: [] as number[],
        measure: () => crowd((index) => tenure.acquire(`crowd/${index}`)),
      },
    ] as const;
    for (let round = -1; round < ROUNDS; round += 1) {
      for (const { rates, measure } of rotated(all, round + 1)) {
        const found = await measure();
        // The first round warms up the disk cache and the compiler.
        if (round >= 0) rates.push(found);
      }
    }
    await tenure.close();
    floor.close();
    return {
      title: `SQLite acquire + release (${driver.name})`,
      method: METHOD,
      rows: rows(all[0].rates, all[1].rates, all[2].rates),
    };
  });
}

const METHOD = `${ROUNDS} interleaved rounds of ${ROUND_MS} ms; WAL, synchronous FULL for both; median, (min-max).`;

function rows(floorRates: number[], ourRates: number[], crowdRates: number[]): Row[] {
  const ratios = ourRates.map((ours, index) => ours / (floorRates[index] ?? Number.NaN));
  const perSecond = (value: number): string => `${Math.round(value)} pairs/s`;
  return [
    {
      what: `floor: two bare upserts (${spread(floorRates, 0)})`,
      measured: perSecond(median(floorRates)),
    },
    {
      what: `acquire + release, one at a time (${spread(ourRates, 0)})`,
      measured: perSecond(median(ourRates)),
    },
    atLeast(
      `ratio to the floor (${spread(ratios)})`,
      median(ratios),
      FLOOR_SHARE,
      (value) => `${value.toFixed(2)}x`,
    ),
    {
      what: `acquire + release, 64 in flight (${spread(crowdRates, 0)})`,
      measured: `${perSecond(median(crowdRates))}, ${(median(crowdRates) / median(floorRates)).toFixed(1)}x the floor (they share commits)`,
    },
  ];
}

function prepareFloor(floor: Connection): void {
  floor.exec("PRAGMA journal_mode = WAL");
  floor.exec("PRAGMA synchronous = FULL");
  floor.exec(
    "CREATE TABLE lease (resource TEXT PRIMARY KEY, holder TEXT, token INT, expires INT) WITHOUT ROWID",
  );
}

async function rate(once: () => Promise<void>): Promise<number> {
  const start = performance.now();
  let pairs = 0;
  while (performance.now() - start < ROUND_MS) {
    await once();
    pairs += 1;
  }
  return (pairs * 1000) / (performance.now() - start);
}

async function crowd(
  acquire: (index: number) => Promise<{ release(): Promise<unknown> }>,
): Promise<number> {
  const end = performance.now() + ROUND_MS;
  let pairs = 0;
  const one = async (index: number): Promise<void> => {
    while (performance.now() < end) {
      const lease = await acquire(index);
      await lease.release();
      pairs += 1;
    }
  };
  await Promise.all(Array.from({ length: 64 }, (_, index) => one(index)));
  return (pairs * 1000) / ROUND_MS;
}
