// A rolling restart of five candidates, again and again the one that leads: how long nobody leads, from the end of one `lead`
// to the beginning of the next, beside a bare round trip of the same engine.

import type { ChildProcess } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { loadDriver } from "../src/clients/sqlite/driver.ts";
import type { BenchServer, EngineBench } from "./engines/engine.ts";
import { etcdBench } from "./engines/etcd.ts";
import { pgBench } from "./engines/postgres.ts";
import { roundTripMs } from "./engines/processes.ts";
import { ioredisBench } from "./engines/redis.ts";
import { zookeeperBench } from "./engines/zookeeper.ts";
import { atMost, highEnd, inTempFolder, median, type Row, type Section } from "./support.ts";
import { endOf, startWorker } from "./workers.ts";

const CANDIDATES = 5;
/** What the planned handover may cost beyond three round trips. */
const ALLOWED_MS = 20;
const ms = (value: number): string => `${value.toFixed(2)} ms`;

export async function rollingRestart({ quick }: { readonly quick: boolean }): Promise<Section> {
  const restarts = quick ? 20 : 100;
  const rows = [
    ...(await onFile(restarts)),
    ...(await onServer(ioredisBench, restarts)),
    ...(await onServer(pgBench, restarts)),
    ...(await onServer(etcdBench, restarts)),
    ...(await onServer(zookeeperBench, restarts)),
  ];
  return {
    title: "Rolling restart: leaderless time",
    method: `${CANDIDATES} processes, ttl 10 s; ${restarts} times the leader closes and comes back; from the end of one lead to the beginning of the next.`,
    rows,
  };
}

async function onServer<S extends BenchServer>(
  engine: EngineBench<S>,
  restarts: number,
): Promise<Row[]> {
  await using server = await engine.start();
  return rowsOf(engine.name, await roundTripMs(engine, server), await gaps(server.url, restarts));
}

async function onFile(restarts: number): Promise<Row[]> {
  return inTempFolder(async (folder) => {
    const tripMs = await commitMs(join(folder, "floor.db"));
    return rowsOf("SQLite", tripMs, await gaps(`sqlite:${join(folder, "tenure.db")}`, restarts));
  });
}

/** What is a round trip to a server is a durable commit to a file. */
async function commitMs(file: string): Promise<number> {
  const database = (await loadDriver()).open(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (n)");
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const times = Array.from({ length: 200 }, (_, index) => {
    const start = performance.now();
    insert.run(index);
    return performance.now() - start;
  });
  database.close();
  return median(times);
}

let lines = 0;

/** How long nobody led, at each restart. Of another library its lock is the leadership. */
export async function gaps(
  url: string,
  restarts: number,
  { library = "tenure", backMs = 0 }: { readonly library?: string; readonly backMs?: number } = {},
): Promise<number[]> {
  lines += 1;
  // Not a name of before: the last leader was killed and left its lock behind, for a ttl.
  const line = new Line(url, `leader-${lines}`, library, String(backMs));
  try {
    await line.heard(CANDIDATES);
    let leading = await line.leader(0n);
    const all: number[] = [];
    for (let restart = 0; restart < restarts; restart += 1) {
      const back = line.heard(1);
      leading.worker.send("restart");
      const [endedAt] = await once(line, "ended");
      leading = await line.leader(leading.term);
      all.push(leading.at - Number(endedAt));
      await back;
      // It is back in the queue by then.
      await sleep(50);
    }
    return all;
  } finally {
    line.end();
  }
}

interface Leading {
  readonly worker: ChildProcess;
  readonly at: number;
  readonly term: bigint;
}

/** The candidates, and what they say: "entered", "leads", "ended". */
class Line extends EventEmitter {
  readonly #workers: readonly ChildProcess[];
  #leading: Leading | undefined;

  constructor(url: string, ...how: readonly string[]) {
    super();
    this.#workers = Array.from({ length: CANDIDATES }, (_, index) =>
      startWorker("candidate.mjs", `candidate ${index}`, url, ...how),
    );
    for (const worker of this.#workers) {
      // Nobody else tells whoever waits here for one of them.
      worker.once("close", () => this.emit("error", endOf(worker)));
      worker.on("message", ({ what, at, term }: { what: string; at: number; term?: string }) => {
        if (term !== undefined) this.#leading = { worker, at, term: BigInt(term) };
        this.emit(what, at);
      });
    }
  }

  /** Resolves when so many more have entered the race. */
  async heard(count: number): Promise<void> {
    for (let heard = 0; heard < count; heard += 1) await once(this, "entered");
  }

  /** The first leader behind this term. */
  async leader(term: bigint): Promise<Leading> {
    while (this.#leading === undefined || this.#leading.term <= term) await once(this, "leads");
    return this.#leading;
  }

  end(): void {
    this.on("error", () => undefined);
    for (const worker of this.#workers) worker.kill("SIGKILL");
  }
}

function rowsOf(name: string, tripMs: number, all: readonly number[]): Row[] {
  const inTrips = (value: number): string => `${ms(value)} (${(value / tripMs).toFixed(1)} trips)`;
  const worst = highEnd(all);
  return [
    { what: `${name}: one bare round trip, median`, measured: ms(tripMs) },
    { what: `${name}: leaderless per restart, p50`, measured: inTrips(median(all)) },
    atMost(
      `${name}: leaderless per restart, ${worst.name}`,
      worst.value,
      3 * tripMs + ALLOWED_MS,
      inTrips,
    ),
    {
      what: `${name}: leaderless in all, ${all.length} restarts`,
      measured: ms(all.reduce((sum, gap) => sum + gap, 0)),
    },
  ];
}
