// Counts, at the server, the requests that fifty candidates of one election cost. Expected: a
// waiting candidate only renews its session, and a change of leader wakes only the next candidates.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Arena } from "../support/faults/fault-arena.ts";
import type { FaultEngine, FaultTests, Place } from "../support/faults/fault-engine.ts";
import type { Child, Told } from "../support/process/child.ts";

const CANDIDATES = 50;
const PROCESSES = 5;
/** All other settings have their defaults: a renewal every third of the ttl. */
const TIMING = { ttlMs: 9_000 };
const ROUND_MS = TIMING.ttlMs / 3;
const CHANGES = 10;
/** The leader resigns and queues again, and the next candidates read what they wait for. */
const CHANGE_MAX = 20;

export function testElectionCrowd<S extends Place>(
  engine: FaultEngine<S>,
  tests: FaultTests<S>,
): void {
  const { start, requests, perRenewal } = engine.counted;
  tests.own(
    `${CANDIDATES} candidates: an idle candidate only renews, and a change of leader does not wake all of them`,
    start,
    async (arena, server) => {
      const crowd = await gather(arena, server);
      const asked = (): Promise<number> => requests(server, crowd);
      let term = await nextTerm(crowd, 0n);
      // By then even the last candidates have made their first check, and some a second one.
      await sleep(2_000);
      const idle = await measure(asked, () => sleep(2 * ROUND_MS));
      const changing = await measure(asked, async () => {
        for (let changes = 0; changes < CHANGES; changes += 1) {
          for (const child of crowd) child.say({ do: "resign" });
          term = await nextTerm(crowd, term);
        }
      });
      const perRound = idle.requests / CANDIDATES / idle.rounds;
      console.log(
        `      ${engine.name}: idle ${perRound.toFixed(2)} requests per candidate and ttl/3; ${CHANGES} changes in ${changing.tookMs.toFixed(0)} ms, ${changing.requests} requests`,
      );
      // A period may include a renewal of each candidate at both of its ends.
      const renewals = ({ rounds }: Spent): number => CANDIDATES * perRenewal * (rounds + 1);
      expect(idle.requests).toBeLessThanOrEqual(renewals(idle));
      // If each change woke all candidates, it would be 500 or more.
      expect(changing.requests).toBeLessThanOrEqual(CHANGES * CHANGE_MAX + renewals(changing));
    },
  );
}

async function gather(arena: Arena, { url }: Place): Promise<Child[]> {
  const count = CANDIDATES / PROCESSES;
  const names = Array.from({ length: PROCESSES }, (_, index) => `crowd ${index}`);
  const crowd = names.map((name) =>
    arena.child(new URL("./workers/crowd.mjs", import.meta.url), {
      url,
      name,
      count,
      timing: TIMING,
      resource: "crowd",
    }),
  );
  await Promise.all(crowd.map((child) => child.heard("entered")));
  return crowd;
}

async function nextTerm(crowd: readonly Child[], above: bigint): Promise<bigint> {
  const isLater = ({ token }: Told): boolean => BigInt(String(token)) > above;
  const told = await Promise.race(crowd.map((child) => child.heard("leads", isLater)));
  return BigInt(String(told.token));
}

interface Spent {
  readonly requests: number;
  readonly tookMs: number;
  /** The duration in thirds of a ttl. */
  readonly rounds: number;
}

async function measure(asked: () => Promise<number>, work: () => Promise<unknown>): Promise<Spent> {
  const before = await asked();
  const begunAt = performance.now();
  await work();
  const tookMs = performance.now() - begunAt;
  return { requests: (await asked()) - before, tookMs, rounds: tookMs / ROUND_MS };
}
