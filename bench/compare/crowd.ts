// A hundred waiters on one lock: what they ask of the server while one holds it, and what one handover costs when it goes from
// one to the next. A herd, or a poll, shows in the requests long before it shows in time.

import { setTimeout as sleep } from "node:timers/promises";
import { answer } from "../workers.ts";
import { type Comparison, type Measured, requests } from "./comparison.ts";
import type { Counted } from "./counted.ts";
import { type EngineName, type Entrant, entrantsOf, reasonsOf } from "./entrants.ts";
import { withWorkers } from "./processes.ts";

const HOLD_MS = 10;

export interface CrowdEffort {
  readonly processes: number;
  readonly waiters: number;
  /** Until all of them surely wait. */
  readonly settleMs: number;
  readonly idleMs: number;
}

export function crowdComparisons(
  counted: Counted,
  effort: CrowdEffort,
  withPeers: boolean,
): Comparison[] {
  const engines = Object.entries(entrantsOf(counted.servers, withPeers)) as [
    EngineName,
    readonly Entrant[],
  ][];
  return engines
    .filter(([engine]) => engine !== "one machine")
    .map(([engine, entrants]) => ({
      title: `${engine}: ${effort.waiters} waiters on one lock`,
      method: `${effort.processes} processes of ${effort.waiters / effort.processes} waiters; with Tenure one of each process asks the store (ADR 006), with the others each by itself. Counted at the server while another one holds, and then from the first release until each had its turn of ${HOLD_MS} ms.`,
      figures: { "a second of waiting": requests, "one handover": requests },
      contestants: entrants.map((entrant) => ({
        name: entrant.name,
        kind: entrant.kind,
        measure: () => measure(entrant, effort, () => counted.requests(engine)),
      })),
      isLong: true,
      reasons: reasonsOf(entrants, "lacksInCrowd"),
    }));
}

function measure(
  entrant: Entrant,
  { processes, waiters, settleMs, idleMs }: CrowdEffort,
  ask: () => Promise<number> | undefined,
): Promise<Measured> {
  return withWorkers(entrant, processes + 1, async ([holder, ...others], resource) => {
    if (holder === undefined) throw new Error("no worker was started");
    await answer(holder, { resource });
    const order = { resource, crowd: waiters / processes, holdMs: HOLD_MS };
    const turns = others.map((worker) => answer<number>(worker, order));
    // A worker that fails before it is waited for below must not end the whole run.
    for (const turn of turns) turn.catch(() => undefined);
    await sleep(settleMs);
    const [before, begunAt] = [Number(await ask()), performance.now()];
    await sleep(idleMs);
    const [waited, seconds] = [Number(await ask()), (performance.now() - begunAt) / 1_000];
    await answer(holder, { free: true });
    const done = (await Promise.all(turns)).reduce((sum, each) => sum + each, 0);
    const after = Number(await ask());
    return {
      figures: {
        "a second of waiting": (waited - before) / seconds,
        "one handover": (after - waited) / done,
      },
    };
  });
}
