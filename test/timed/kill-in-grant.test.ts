// Goal: kill -9 at any instant of a grant leaves a whole file, tokens that never fall, and nothing that stays blocked.
// Method: some hundred processes, two at a time, do nothing but get granted and release; each is killed at a random moment,
// most of them inside a transaction, some while they still open the file. Every grant that the test ever heard of is
// held against all later ones and against the file.
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";
import { hostMs, ms, numberOf, peek, until } from "../support/process/process-file.ts";
import { puppet } from "../support/process/process-puppet.ts";

const RAIDER = new URL("../process/workers/raider.mjs", import.meta.url);
const KILLS = process.env.TENURE_LONG === "1" ? 1_000 : 300;
const LANES = 2;
/**
 * Each process takes the next one, so that the lease a dead one leaves has mostly expired when it is wanted again. No
 * multiple of EARLY_EVERY, or the early dead would all be at the same ones.
 */
const RESOURCES = 15;
const SHARED = "shared";
const TIMING = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
const OBTAINED_MAX_MS = TIMING.ttlMs + 500;
/** Long enough for several grants, so that the kill falls into any of them. */
const LIFE_MAX_MS = 12;
/** One in so many is killed without having been heard of: while it starts, opens the file or gets its first grant. */
const EARLY_EVERY = 7;
const EARLY_MAX_MS = 150;
const processes = crew();

interface Grant {
  readonly resource: string;
  readonly token: bigint;
  readonly at: number;
}

interface Tale {
  readonly grants: Grant[];
  /** How long each process waited for its first grant, from its asking or from the death of its predecessor. */
  readonly waits: number[];
  readonly killedAt: Map<string, number>;
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}

/** One life: from the start of the process to its death, and what it told in between. */
async function raid(file: string, index: number, tale: Tale): Promise<void> {
  const own = `own/${index % RESOURCES}`;
  const child = processes.start(RAIDER, { file, own, shared: SHARED, timing: TIMING });
  if (index % EARLY_EVERY === 0) await pause(Math.random() * EARLY_MAX_MS);
  else {
    const first = await child.heard("granted");
    const free = Math.max(Number(first.asked), tale.killedAt.get(own) ?? 0);
    tale.waits.push(first.at - free);
    await pause(Math.random() * LIFE_MAX_MS);
  }
  await child.kill();
  expect(child.errors).toBe("");
  tale.killedAt.set(own, hostMs());
  tale.grants.push(...grantsOf(child));
}

function grantsOf(child: Child): Grant[] {
  return child.told.map(({ resource, token, at }) => ({
    resource: String(resource),
    token: BigInt(String(token)),
    at,
  }));
}

function expectWholeFile(file: string): void {
  const database = new Database(file, { timeout: 5_000 });
  try {
    expect(database.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  } finally {
    database.close();
  }
}

/** The highest token that was heard of per resource; fails where one is not above those before it. */
function highestOf(grants: readonly Grant[]): Map<string, bigint> {
  const highest = new Map<string, bigint>();
  for (const { resource, token } of [...grants].sort((a, b) => a.at - b.at)) {
    expect(token, `S1 on ${resource}`).toBeGreaterThan(highest.get(resource) ?? 0n);
    highest.set(resource, token);
  }
  return highest;
}

/** Takes over everything that the dead have left, and answers how long the slowest of it took. */
async function inherit(file: string, highest: ReadonlyMap<string, bigint>): Promise<number> {
  const lastKillAt = hostMs();
  const heir = await puppet(processes, file);
  const all = [...highest].map(async ([resource, token]) => {
    const held = await heir.acquire(resource, { ...TIMING, waitMs: 30_000 });
    expect(held.token, `S1 on ${resource}`).toBeGreaterThan(token);
    return held.at - lastKillAt;
  });
  return Math.max(...(await Promise.all(all)));
}

test(`S1, L1: ${KILLS} times kill -9 during a grant lose no token, block nothing longer than ttl + 500 ms and leave a whole file`, async () => {
  const file = join(processes.folder(), "tenure.db");
  const tale: Tale = { grants: [], waits: [], killedAt: new Map() };
  const startedAt = performance.now();
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < KILLS) {
      const index = next;
      next += 1;
      await raid(file, index, tale);
      if (index % 100 === 99) expectWholeFile(file);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  const tookS = (performance.now() - startedAt) / 1000;

  expectWholeFile(file);
  const highest = highestOf(tale.grants);
  expect([...highest.keys()].sort()).toEqual(
    [...Array.from({ length: RESOURCES }, (_, index) => `own/${index}`), SHARED].sort(),
  );
  expect(Math.max(...tale.waits)).toBeLessThanOrEqual(OBTAINED_MAX_MS);
  const inheritedMs = await inherit(file, highest);
  expect(inheritedMs).toBeLessThanOrEqual(OBTAINED_MAX_MS);
  console.log(
    `      ${KILLS} kills in ${tookS.toFixed(0)} s, ${tale.grants.length} grants heard of, ` +
      `longest wait for a dead one's resource ${ms(Math.max(...tale.waits))}, at the end ${ms(inheritedMs)}`,
  );
  await expectNoOrphans(file);
}, 400_000);

/** When every dead session is over, the next one that is opened sweeps them away: only the living remain. */
async function expectNoOrphans(file: string): Promise<void> {
  const overAt = hostMs() + TIMING.ttlMs;
  await until("every dead session is over", () => hostMs() > overAt);
  const last = await puppet(processes, file);
  await last.acquire("afterwards", TIMING);
  const look = peek(processes, file);
  expect(numberOf(look("SELECT count(*) FROM waiter"))).toBe(0);
  expect(numberOf(look("SELECT count(*) FROM session"))).toBe(2);
}
