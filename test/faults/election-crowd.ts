// Fifty candidates for one election, and what that costs the store, counted at the server. Expected: who waits only renews its
// session, and a change of the leader wakes those whom it concerns, not all of them.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Arena } from "../support/faults/fault-arena.ts";
import type { FaultEngine, FaultTests, Place } from "../support/faults/fault-engine.ts";
import type { Child, Told } from "../support/process/child.ts";

const CANDIDATES = 50;
const PROCESSES = 5;
/** Everything else follows from it as without options: a renewal every third of it. */
const TIMING = { ttlMs: 9_000 };
const ROUND_MS = TIMING.ttlMs / 3;
const CHANGES = 10;
/** One gives up and queues again, the next one takes over, a few behind it look. */
const CHANGE_MAX = 20;

export function electionCrowd<S extends Place>(engine: FaultEngine<S>, tests: FaultTests<S>): void {
  const { start, requests, perRenewal } = engine.counted;
  tests.own(
    `${CANDIDATES} candidates: while idle each only renews, and a change of the leader causes no herd`,
    start,
    async (arena, server) => {
      const crowd = await gather(arena, server);
      const asked = (): Promise<number> => requests(server, crowd);
      let term = await nextTerm(crowd, 0n);
      // Those who came last have looked by then, and some of them a second time.
      await sleep(2_000);
      const idle = await spent(asked, () => sleep(2 * ROUND_MS));
      const changing = await spent(asked, async () => {
        for (let changes = 0; changes < CHANGES; changes += 1) {
          for (const child of crowd) child.say({ do: "resign" });
          term = await nextTerm(crowd, term);
        }
      });
      const perRound = idle.requests / CANDIDATES / idle.rounds;
      console.log(
        `      ${engine.name}: idle ${perRound.toFixed(2)} requests per candidate and ttl/3; ${CHANGES} changes in ${changing.tookMs.toFixed(0)} ms, ${changing.requests} requests`,
      );
      // Renewals of all of them may lie just inside of a stretch of time at both of its ends.
      const renewals = ({ rounds }: Spent): number => CANDIDATES * perRenewal * (rounds + 1);
      expect(idle.requests).toBeLessThanOrEqual(renewals(idle));
      // Were all woken by each change, it would be 500 and more.
      expect(changing.requests).toBeLessThanOrEqual(CHANGES * CHANGE_MAX + renewals(changing));
    },
  );
}

async function gather(arena: Arena, { url }: Place): Promise<Child[]> {
  const count = CANDIDATES / PROCESSES;
  const names = Array.from({ length: PROCESSES }, (_, index) => `crowd ${index}`);
  const crowd = names.map((name) =>
    arena.child(new URL("./workers/crowd.mjs", import.meta.url), {
      ...{ url, name, count, timing: TIMING, resource: "crowd" },
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
  /** How many thirds of a ttl it took. */
  readonly rounds: number;
}

async function spent(asked: () => Promise<number>, work: () => Promise<unknown>): Promise<Spent> {
  const before = await asked();
  const begunAt = performance.now();
  await work();
  const tookMs = performance.now() - begunAt;
  return { requests: (await asked()) - before, tookMs, rounds: tookMs / ROUND_MS };
}
