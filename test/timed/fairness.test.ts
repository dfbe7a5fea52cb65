// Goal: no process starves. Method: processes acquire and release as fast as they can, first each
// on its own resource, where on SQLite they compete only for the write lock, then all on the same
// resource, on every store. SQLite's own busy_timeout would fail the first test: it can make one of
// two saturating writers wait for seconds. The time in which a process was ready but the operating
// system ran other processes is not counted: Tenure does not decide that.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { ms } from "../support/process/process-file.ts";
import { everyStore, freshName, urlOf } from "../support/stores/every-store.ts";

const SATURATOR = new URL("../process/workers/saturator.mjs", import.meta.url);
const processes = crew();

interface Saturation {
  readonly url: string;
  readonly count: number;
  readonly forMs: number;
  resourceOf(process: number): string;
}

/** The grants of each process per millisecond in which it could run. */
async function measureRates(what: string, saturation: Saturation): Promise<number[]> {
  const { url, count, forMs, resourceOf } = saturation;
  const options = { ttlMs: 10_000, waitMs: 20_000 };
  const workers = Array.from({ length: count }, (_, worker) =>
    processes.start(SATURATOR, { url, options, forMs, resource: resourceOf(worker) }),
  );
  await Promise.all(workers.map((worker) => worker.heard("ready")));
  for (const worker of workers) worker.say({ do: "go" });
  const told = await Promise.all(workers.map((worker) => worker.heard("done")));
  const grants = told.map((done) => Number(done.grants));
  const rates = told.map((done) => Number(done.grants) / (forMs - Number(done.queuedMs)));
  const longest = Math.max(...told.map((done) => Number(done.longestMs)));
  const sum = grants.reduce((total, own) => total + own, 0);
  console.log(
    `      ${what}: ${sum} grants in ${forMs / 1_000} s, ${Math.min(...grants)} to ` +
      `${Math.max(...grants)} for each of ${count} processes, longest wait ${ms(longest)}`,
  );
  return rates;
}

test("with separate resources, each of four saturating writers gets at least a tenth of the commits", async () => {
  const rates = await measureRates("own resources", {
    url: `sqlite:${join(processes.folder(), "tenure.db")}`,
    count: 4,
    forMs: 3_000,
    resourceOf: (worker) => `part/${worker}`,
  });
  const sum = rates.reduce((total, rate) => total + rate, 0);
  expect(Math.min(...rates)).toBeGreaterThanOrEqual(0.1 * sum);
});

describe.each(everyStore)("%s", (engine) => {
  const url = urlOf(engine);

  test("with one resource, the busiest of eight saturating processes gets at most 1.3 times the grants of the slowest", async () => {
    const resource = freshName("settlement");
    const rates = await measureRates(engine, {
      url: url(),
      count: 8,
      forMs: process.env.TENURE_LONG === "1" ? 10_000 : 4_000,
      resourceOf: () => resource,
    });
    expect(Math.max(...rates) / Math.min(...rates)).toBeLessThanOrEqual(1.3);
  });
});
