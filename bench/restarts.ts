// Planned restarts: of five candidates, the leader closes and comes back, again and again. Measures
// the time without a leader, from the end of one term to the beginning of the next.

import { EventEmitter, once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { measureTrip, openBaseline } from "./baselines.ts";
import { compare, milliseconds } from "./comparison.ts";
import type { Section } from "./results.ts";
import { labels } from "./servers.ts";
import { type Context, toContestants } from "./topic.ts";
import { newResource, type Target, Worker } from "./workers.ts";

const CANDIDATES = 5;
/** What a planned restart may take beyond three round trips. */
const ALLOWED_MS = 20;
/**
 * About what a program takes to start. Without it, a library without a queue would succeed itself.
 */
const BACK_MS = 300;

export async function* restarts(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, engines, servers } = context;
  const count = quick ? 3 : withPeers ? 10 : 35;
  const rounds = quick ? 1 : 3;
  for (const engine of engines) {
    const url = await servers.url(engine);
    const baseline = await openBaseline[engine](url);
    const tripMs = await measureTrip(baseline).finally(() => baseline.close());
    yield await compare({
      title: `${labels[engine]}: planned restarts, time without a leader`,
      method: `${CANDIDATES} processes, ttl 10 s; ${rounds} x ${count} times the leader resigns, closes and is back after ${BACK_MS} ms. A library without an election leads by its lock. The target is three bare round trips (one takes ${tripMs.toFixed(2)} ms) and ${ALLOWED_MS} ms.`,
      rounds,
      figures: { times: { ...milliseconds, atMost: 3 * tripMs + ALLOWED_MS } },
      contestants: toContestants(context, { engine, url, topic: "restarts" }, (contender) => ({
        measure: async () => ({ times: await measureGaps(contender, count) }),
      })),
    });
  }
}

async function measureGaps(target: Target, count: number): Promise<number[]> {
  // A new resource: the last leader is killed, and holds its lock for a ttl.
  await using race = new Race({ ...target, resource: newResource(), backMs: BACK_MS });
  await race.entered(CANDIDATES);
  let leading = await race.leaderAfter(0n);
  const gaps: number[] = [];
  for (let restart = 0; restart < count; restart += 1) {
    const back = race.entered(1);
    leading.worker.send({ restart: true });
    const [endedAt] = await once(race, "ended");
    leading = await race.leaderAfter(leading.term);
    gaps.push(leading.at - Number(endedAt));
    await back;
    // Long enough for it to be in the queue.
    await sleep(50);
  }
  return gaps;
}

interface Leading {
  readonly worker: Worker;
  readonly at: number;
  readonly term: bigint;
}

/** The candidates. Emits what they report: "entered", "leads" and "ended". */
class Race extends EventEmitter implements AsyncDisposable {
  readonly #workers: readonly Worker[];
  #leading: Leading | undefined;

  constructor(settings: object) {
    super();
    const names = Array.from({ length: CANDIDATES }, (_, index) => `candidate ${index}`);
    this.#workers = names.map((name) => new Worker("candidate.mjs", { ...settings, name }));
    for (const worker of this.#workers) {
      worker.process.once("close", () => this.emit("error", worker.describeEnd()));
      worker.process.on("message", (message) => {
        const { event, at, term } = message as { event: string; at: number; term?: string };
        if (term !== undefined) this.#leading = { worker, at, term: BigInt(term) };
        this.emit(event, at);
      });
    }
  }

  /** Resolves when this many more candidates have entered. */
  async entered(count: number): Promise<void> {
    for (let entered = 0; entered < count; entered += 1) await once(this, "entered");
  }

  /** The first leader with a later term. */
  async leaderAfter(term: bigint): Promise<Leading> {
    while (this.#leading === undefined || this.#leading.term <= term) await once(this, "leads");
    return this.#leading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.on("error", () => undefined);
    await Promise.all(this.#workers.map((worker) => worker.end()));
  }
}
