// Goal: no process starves. Method: four processes write as fast as they can for three seconds,
// first each on its own resource, where they compete only for SQLite's write lock, then all on the
// same resource, where they also compete for the lease. SQLite's own busy_timeout would fail this
// test: it can make one of two saturating writers wait for seconds. The time in which a writer was
// ready but the operating system ran other processes is not counted: Tenure does not decide that.
import { join } from "node:path";
import { expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { ms } from "../support/process/process-file.ts";

const SATURATOR = new URL("../process/workers/saturator.mjs", import.meta.url);
const WRITERS = 4;
const FOR_MS = 3_000;
const LEAST_SHARE = 0.1;
const processes = crew();

async function measureShares(
  what: string,
  resourceOf: (writer: number) => string,
): Promise<number[]> {
  const file = join(processes.folder(), "tenure.db");
  const options = { ttlMs: 10_000, waitMs: 20_000 };
  const writers = Array.from({ length: WRITERS }, (_, writer) =>
    processes.start(SATURATOR, { file, options, forMs: FOR_MS, resource: resourceOf(writer) }),
  );
  await Promise.all(writers.map((writer) => writer.heard("ready")));
  for (const writer of writers) writer.say({ do: "go" });
  const told = await Promise.all(writers.map((writer) => writer.heard("done")));
  const grants = told.map((done) => Number(done.grants));
  const sum = grants.reduce((total, own) => total + own, 0);
  const longest = Math.max(...told.map((done) => Number(done.longestMs)));
  const rates = told.map((done) => Number(done.grants) / (FOR_MS - Number(done.queuedMs)));
  const parts = rates.map((own) => own / rates.reduce((total, rate) => total + rate, 0));
  console.log(
    `      ${what}: ${sum} grants in ${FOR_MS / 1000} s, shares ` +
      `${parts.map((part) => `${(100 * part).toFixed(0)} %`).join(", ")}, longest wait ${ms(longest)}`,
  );
  return parts;
}

test("with separate resources, each of four saturating writers gets at least a tenth of the commits", async () => {
  const parts = await measureShares("own resources", (writer) => `part/${writer}`);
  expect(Math.min(...parts)).toBeGreaterThanOrEqual(LEAST_SHARE);
});

test("with one resource, each of four saturating writers gets at least a tenth of the grants", async () => {
  const parts = await measureShares("one resource", () => "settlement");
  expect(Math.min(...parts)).toBeGreaterThanOrEqual(LEAST_SHARE);
});
