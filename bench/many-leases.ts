// One session with 10, 1,000 and 10,000 leases on SQLite, held over several renewals: requests and time per renewal,
// CPU against the same process without leases, and heap per lease.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Lease, type OpenStore, type Store } from "tenure";
import { sqliteStore } from "tenure/stores/sqlite";
import { atMost, collectGarbage, inTempFolder, median, type Row, type Section } from "./support.ts";

const TTL_MS = 10_000;
const HOLD_MS = 14_000;

export async function manyLeases(): Promise<Section> {
  const rows: Row[] = [];
  for (const count of [10, 1_000, 10_000]) rows.push(...(await hold(count)));
  const method = `ttl ${TTL_MS / 1000} s, renewed every third of it, held for ${HOLD_MS / 1000} s; CPU includes the idle process.`;
  return { title: "Many leases, one session (SQLite)", method, rows };
}

async function hold(count: number): Promise<Row[]> {
  return inTempFolder(async (folder) => {
    const renewals: number[] = [];
    const open = sqliteStore({ file: join(folder, "tenure.db") });
    const tenure = await connect(timingRenewals(open, renewals));
    // The first lease pays for the session; it is not what one lease costs.
    const first = await tenure.acquire("first", { ttlMs: TTL_MS });
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    const leases: Lease[] = await Promise.all(
      Array.from({ length: count }, (_, index) =>
        tenure.acquire(`bench/${index}`, { ttlMs: TTL_MS }),
      ),
    );
    await sleep(200);
    collectGarbage();
    const heapPerLease = (process.memoryUsage().heapUsed - before) / count;
    renewals.length = 0;
    const cpuBefore = process.cpuUsage();
    const start = performance.now();
    await sleep(HOLD_MS);
    const cpu = process.cpuUsage(cpuBefore);
    const elapsedMs = performance.now() - start;
    for (const lease of leases) lease.check();
    first.check();
    const due = elapsedMs / (TTL_MS / 3);
    await tenure.close();
    return report(count, {
      renewals,
      due,
      cpuShare: (cpu.user + cpu.system) / 1000 / elapsedMs,
      heapPerLease,
    });
  });
}

interface Held {
  readonly renewals: readonly number[];
  readonly due: number;
  readonly cpuShare: number;
  readonly heapPerLease: number;
}

function report(count: number, held: Held): Row[] {
  const name = `${count.toLocaleString("en")} leases`;
  const percent = (value: number): string => `${(value * 100).toFixed(2)} % of a core`;
  const bytes = (value: number): string => `${Math.round(value)} bytes`;
  return [
    atMost(
      `${name}: requests per renewal`,
      Math.ceil(held.renewals.length / Math.ceil(held.due)),
      1,
      String,
    ),
    { what: `${name}: time per renewal`, measured: `${median(held.renewals).toFixed(2)} ms` },
    { what: `${name}: CPU`, measured: `${(held.cpuShare * 60).toFixed(2)} s a minute` },
    atMost(`${name}: CPU share`, held.cpuShare, 0.01, percent),
    ...(count < 1_000 ? [] : [atMost(`${name}: heap per lease`, held.heapPerLease, 1_024, bytes)]),
  ];
}

/** The real store, with a stopwatch on its renewals. */
function timingRenewals(open: OpenStore, renewals: number[]): OpenStore {
  return async (parts) => {
    const store = await open(parts);
    const renew: Store["renew"] = async (request) => {
      const start = performance.now();
      try {
        return await store.renew(request);
      } finally {
        renewals.push(performance.now() - start);
      }
    };
    return new Proxy(store, {
      get: (target, name) => {
        if (name === "renew") return renew;
        const member: unknown = Reflect.get(target, name);
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
  };
}
