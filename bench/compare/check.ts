// "Still held?", asked of a lock that is: what the answer costs, beside a bare reading of the clock. Each in a process of its
// own, on Redis, since most peers run there; the answer needs no server.

import { answer, heard, startWorker } from "../workers.ts";
import { type Comparison, type Measured, nanoseconds } from "./comparison.ts";
import type { Entrant } from "./entrants.ts";

const CALLS = 1_000_000;
const TTL_MS = 60_000;
const FLAG =
  "does less: reads a flag that a timer of the same process sets, and so says yes after a pause";

export function checkComparison(entrants: readonly Entrant[]): Comparison {
  const able = entrants.filter(({ cannotHold }) => cannotHold === undefined);
  const ours = able.find(({ kind }) => kind === "ours");
  if (ours === undefined) throw new Error("nothing to compare");
  return {
    title: "Still held?",
    method: `${CALLS.toLocaleString("en")} questions a round: lease.check() of Tenure, signal.aborted or isAcquired of the peers. Tenure reads two clocks, since one of them may stand still in suspend.`,
    figures: { check: nanoseconds },
    contestants: [
      ...able.map((entrant) => ({
        ...{ name: entrant.name, kind: entrant.kind },
        measure: () => ask(entrant, { check: CALLS }),
      })),
      {
        ...{ name: "performance.now()", kind: "floor" as const },
        measure: () => ask(ours, { clock: CALLS }),
      },
    ],
    reasons: Object.fromEntries(able.map(({ name }) => [name, FLAG])),
    floorShare: 0.4,
    isLong: true,
  };
}

async function ask({ library, url }: Entrant, order: object): Promise<Measured> {
  const worker = startWorker("holding.mjs", library, url, String(TTL_MS));
  try {
    await heard(worker);
    await answer(worker, { take: 1 });
    // The first times are compiled while they run.
    await answer(worker, order);
    return { figures: { check: await answer<number>(worker, order) } };
  } finally {
    worker.kill("SIGKILL");
  }
}
