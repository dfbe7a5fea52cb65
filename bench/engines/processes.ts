// What takes more than one process: handover between two, failover after SIGKILL, and thousands of leases held by one whose
// CPU time is its own.

import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { atMost, highEnd, median, type Row } from "../support.ts";
import { answer, startWorker } from "../workers.ts";
import type { BenchServer, EngineBench } from "./engine.ts";

const TTL_MS = 3_000;
const ms = (value: number): string => `${value.toFixed(2)} ms`;

interface Turn {
  readonly acquiredAt: number;
  readonly releasedAt: number;
  readonly order: number;
}

interface Held {
  readonly cpuMs: number;
  readonly lost: number;
}

/** p99, or the worst of few, within three round trips of the engine and 10 ms. */
export async function handoverRows<S extends BenchServer>(
  engine: EngineBench<S>,
  server: S,
  handovers: number,
): Promise<Row[]> {
  const tripMs = await roundTripMs(engine, server);
  const pairsMs = await pairTimes(engine, server);
  const workers = [start("ping", server.url), start("pong", server.url)];
  const order = { turns: Math.ceil(handovers / 2) };
  const turns = (await Promise.all(workers.map((worker) => answer<Turn[]>(worker, order)))).flat();
  for (const worker of workers) worker.kill();
  turns.sort((a, b) => a.order - b.order);
  const gaps = turns
    .slice(1)
    .map((turn, index) => turn.acquiredAt - (turns[index]?.releasedAt ?? Number.NaN));
  const [worst, bare] = [highEnd(gaps), highEnd(pairsMs)];
  const inTrips = (value: number): string => `${ms(value)} (${(value / tripMs).toFixed(1)} trips)`;
  return [
    { what: "one bare round trip, median", measured: ms(tripMs) },
    {
      what: `two bare writes one after the other, after the same idling, p50 and ${bare.name}`,
      measured: `${ms(median(pairsMs))}, ${ms(bare.value)}`,
    },
    { what: `handover p50 (${handovers} handovers)`, measured: inTrips(median(gaps)) },
    atMost(`handover ${worst.name}`, worst.value, 3 * tripMs + 10, inTrips),
  ];
}

/** The median of a bare round trip. */
export async function roundTripMs<S extends BenchServer>(
  engine: EngineBench<S>,
  server: S,
): Promise<number> {
  const floor = await engine.openFloor?.(server);
  if (floor === undefined) return Number.NaN;
  const times: number[] = [];
  for (let trip = 0; trip < 300; trip += 1) times.push(await timeOf(() => floor.trip()));
  await floor.close();
  return median(times.slice(50));
}

/** A release and a grant are two writes, each of which is on the disk before the next begins: no handover is faster. */
async function pairTimes<S extends BenchServer>(
  engine: EngineBench<S>,
  server: S,
): Promise<number[]> {
  const floor = await engine.openFloor?.(server);
  if (floor === undefined) return [];
  const times: number[] = [];
  for (let pair = 0; pair < 100; pair += 1) {
    // As long as a turn of takeTurns() in workers/engine.mjs: server and disk have calmed down.
    await sleep(10 + Math.random() * 10);
    times.push(await timeOf(() => floor.pair(0)));
  }
  await floor.close();
  return times;
}

async function timeOf(act: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}

/** From the death of the holder to the next one's grant. */
export async function failoverRows(server: BenchServer, runs: number): Promise<Row[]> {
  const gaps: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    const resource = `failover/${run}`;
    const holder = start("holder", server.url);
    await answer(holder, { hold: resource, ttlMs: TTL_MS });
    const waiter = start("waiter", server.url);
    const waiting = answer<number>(waiter, { wait: resource, ttlMs: TTL_MS });
    // At another phase of the renewals each time.
    await sleep(1_200 + (run * TTL_MS) / 3 / runs);
    const killedAt = Number(process.hrtime.bigint()) / 1e6;
    holder.kill("SIGKILL");
    gaps.push((await waiting) - killedAt);
    waiter.kill();
  }
  return [
    {
      what: `failover after SIGKILL, ttl ${TTL_MS} ms, median of ${runs}`,
      measured: ms(median(gaps)),
    },
    atMost("failover after SIGKILL, worst", Math.max(...gaps), TTL_MS + 500, ms),
  ];
}

/** One session with many leases: requests at the server, leases lost, and CPU above that of an idle process. */
export async function manyRows<S extends BenchServer>(
  engine: EngineBench<S>,
  server: S,
  holdMs: number,
): Promise<Row[]> {
  const idle = await hold(server, { count: 0, holdMs });
  const rows: Row[] = [];
  for (const count of [1_000, 10_000]) {
    const held = await hold(server, { count, holdMs });
    const name = `${count.toLocaleString("en")} leases for ${holdMs / 1000} s`;
    const due = Math.ceil(holdMs / (10_000 / 3)) + 1;
    rows.push(atMost(`${name}: requests at the server`, held.requests, due, String));
    rows.push(atMost(`${name}: leases lost`, held.lost, 0, String));
    const above = Math.max(0, held.cpuMs - idle.cpuMs);
    const show = (value: number): string => `${Math.round(value)} ms of CPU`;
    const what = `${name}: client above an idle process (${show(idle.cpuMs)})`;
    const peer = count === 10_000 ? engine.holdingPeer : undefined;
    if (peer === undefined) rows.push({ what, measured: show(above) });
    else {
      const theirs = await hold(server, { count, holdMs, peer });
      rows.push({
        what: `${name}: ${peer}, requests and client above an idle process`,
        measured: `${theirs.requests} requests, ${show(theirs.cpuMs - idle.cpuMs)}`,
      });
      // A fifth of the peer's, but never less than the clock that counts CPU time can tell.
      rows.push(atMost(what, above, Math.max(20, (theirs.cpuMs - idle.cpuMs) / 5), show));
    }
  }
  return rows;
}

interface HoldOrder {
  readonly count: number;
  readonly holdMs: number;
  readonly peer?: string;
}

async function hold(server: BenchServer, order: HoldOrder): Promise<Held & { requests: number }> {
  const worker = start("many", server.url);
  await answer(worker, { take: order.count, peer: order.peer });
  // Statistics of some servers lag a little.
  await sleep(1_200);
  const before = await server.requests();
  const held = await answer<Held>(worker, { holdMs: order.holdMs });
  const requests = (await server.requests()) - before;
  const ended = new Promise((resolve) => worker.once("exit", resolve));
  worker.kill("SIGKILL");
  await ended;
  return { ...held, requests };
}

function start(name: string, store: string): ChildProcess {
  return startWorker("engine.mjs", name, store);
}
