// Goal: kill -9 at any moment of a grant leaves an intact file, tokens that never fall, and nothing
// that stays blocked. Method: some hundred processes, two at a time, only acquire and release. Each
// is killed at a random moment, most of them inside a transaction, some while they still open the
// file. Every grant that the test learned of is compared with all later ones and with the file.
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";
import { hostMs, ms, numberOf, peek, until } from "../support/process/process-file.ts";
import { puppet } from "../support/process/process-puppet.ts";

const WORKER = new URL("../process/workers/acquire-and-release.mjs", import.meta.url);
const KILLS = process.env.TENURE_LONG === "1" ? 1_000 : 150;
const LANES = 2;
/**
 * Each process uses the next resource, so that the lease of a dead process has usually expired when
 * its resource is used again. Not a multiple of EARLY_EVERY, or the processes that die early would
 * all use the same resources.
 */
const RESOURCES = 15;
const SHARED = "shared";
const TIMING = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
const OBTAINED_MAX_MS = TIMING.ttlMs + 500;
/** Long enough for several grants, so that the kill can hit any of them. */
const LIFE_MAX_MS = 12;
/**
 * One in this many is killed without waiting for its first grant: while it starts, opens the file
 * or acquires.
 */
const EARLY_EVERY = 7;
const EARLY_MAX_MS = 150;
const processes = crew();

interface Grant {
  readonly resource: string;
  readonly token: bigint;
  readonly at: number;
}

interface Report {
  readonly grants: Grant[];
  /**
   * How long each process waited for its first grant, since its request or the death of its
   * predecessor.
   */
  readonly waits: number[];
  readonly killedAt: Map<string, number>;
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}

/** Starts one process, kills it, and collects the grants that it reported. */
async function runAndKill(file: string, index: number, report: Report): Promise<void> {
  const own = `own/${index % RESOURCES}`;
  const child = processes.start(WORKER, { file, own, shared: SHARED, timing: TIMING });
  if (index % EARLY_EVERY === 0) await pause(Math.random() * EARLY_MAX_MS);
  else {
    const first = await child.heard("granted");
    const free = Math.max(Number(first.asked), report.killedAt.get(own) ?? 0);
    report.waits.push(first.at - free);
    await pause(Math.random() * LIFE_MAX_MS);
  }
  await child.kill();
  expect(child.errors).toBe("");
  report.killedAt.set(own, hostMs());
  report.grants.push(...readGrants(child));
}

function readGrants(child: Child): Grant[] {
  return child.told.map(({ resource, token, at }) => ({
    resource: String(resource),
    token: BigInt(String(token)),
    at,
  }));
}

function expectIntactFile(file: string): void {
  const database = new Database(file, { timeout: 5_000 });
  try {
    expect(database.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  } finally {
    database.close();
  }
}

/** The highest reported token of each resource. Fails if a token is not above all earlier ones. */
function findHighest(grants: readonly Grant[]): Map<string, bigint> {
  const highest = new Map<string, bigint>();
  for (const { resource, token } of [...grants].sort((a, b) => a.at - b.at)) {
    expect(token, `S1 on ${resource}`).toBeGreaterThan(highest.get(resource) ?? 0n);
    highest.set(resource, token);
  }
  return highest;
}

/** Takes over every resource of the killed processes, and returns how long the slowest took. */
async function takeOverAll(file: string, highest: ReadonlyMap<string, bigint>): Promise<number> {
  const lastKillAt = hostMs();
  const successor = await puppet(processes, file);
  const all = [...highest].map(async ([resource, token]) => {
    const held = await successor.acquire(resource, { ...TIMING, waitMs: 30_000 });
    expect(held.token, `S1 on ${resource}`).toBeGreaterThan(token);
    return held.at - lastKillAt;
  });
  return Math.max(...(await Promise.all(all)));
}

test(`S1, L1: ${KILLS} times kill -9 during a grant lose no token, block nothing longer than ttl + 500 ms and leave the file intact`, async () => {
  const file = join(processes.folder(), "tenure.db");
  const report: Report = { grants: [], waits: [], killedAt: new Map() };
  const startedAt = performance.now();
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < KILLS) {
      const index = next;
      next += 1;
      await runAndKill(file, index, report);
      if (index % 100 === 99) expectIntactFile(file);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  const tookS = (performance.now() - startedAt) / 1000;

  expectIntactFile(file);
  const highest = findHighest(report.grants);
  expect([...highest.keys()].sort()).toEqual(
    [...Array.from({ length: RESOURCES }, (_, index) => `own/${index}`), SHARED].sort(),
  );
  expect(Math.max(...report.waits)).toBeLessThanOrEqual(OBTAINED_MAX_MS);
  const takenOverMs = await takeOverAll(file, highest);
  expect(takenOverMs).toBeLessThanOrEqual(OBTAINED_MAX_MS);
  console.log(
    `      ${KILLS} kills in ${tookS.toFixed(0)} s, ${report.grants.length} grants heard of, ` +
      `longest wait for a dead one's resource ${ms(Math.max(...report.waits))}, at the end ${ms(takenOverMs)}`,
  );
  await expectNoOrphans(file);
}, 400_000);

/** Once every session of a killed process has expired, opening a session removes them. */
async function expectNoOrphans(file: string): Promise<void> {
  const overAt = hostMs() + TIMING.ttlMs;
  await until("every dead session has expired", () => hostMs() > overAt);
  const last = await puppet(processes, file);
  await last.acquire("afterwards", TIMING);
  const query = peek(processes, file);
  expect(numberOf(query("SELECT count(*) FROM waiter"))).toBe(0);
  expect(numberOf(query("SELECT count(*) FROM session"))).toBe(2);
}
