// Faults that only elections have: a rolling restart of all candidates, a `lead` that does not
// return, a `prepare` that fails. Expected: a planned end never costs a ttl. A leader that hangs is
// reported, replaced, and rejected by the resource. A candidate campaigns only when it is ready.
import { expect } from "vitest";
import {
  type Arena,
  type Contender,
  expectSound,
  type Held,
  type Trial,
} from "../support/faults/fault-arena.ts";
import {
  type AnyEngine,
  buildExpectation,
  type Place,
  type SharedTests,
} from "../support/faults/fault-engine.ts";
import { ms } from "../support/process/process-file.ts";

const CANDIDATES = 5;
/** Long enough that a gap below half of it cannot come from expiry, on any machine. */
const PATIENT = { ttlMs: 20_000, renewEveryMs: 2_000, roundTripMs: 5_000 };

interface Leading {
  readonly leader: Contender;
  readonly held: Held;
}

export function testElectionFaults(engine: AnyEngine, tests: SharedTests): void {
  tests.shared(
    `L4: a rolling restart of ${CANDIDATES} candidates leaves no gap as long as a ttl, and each exits with code 0`,
    async (arena, place) => {
      const trial = arena.trial();
      const enter = async (name: string): Promise<Contender> => {
        const candidate = await arena.contender(name, place);
        await candidate.compete(trial, { election: {}, options: PATIENT });
        return candidate;
      };
      let line = await Promise.all(
        Array.from({ length: CANDIDATES }, (_, index) => enter(`old ${index}`)),
      );
      let { leader, held } = await nextLeader(line, trial, 0n);
      for (let restarts = 0; restarts < CANDIDATES; restarts += 1) {
        await leader.acts(trial, 20);
        line = line.filter((each) => each !== leader);
        await restart(leader, trial);
        const fresh = enter(`new ${restarts}`);
        ({ leader, held } = await nextLeader(line, trial, held.token));
        line.push(await fresh);
      }
      await leader.acts(trial, 20);
      const gaps = measureGaps(trial);
      const total = gaps.reduce((sum, gap) => sum + gap, 0);
      console.log(
        `      ${engine.name}: ${gaps.length} restarts, leaderless ${ms(total)} in all, longest ${ms(Math.max(...gaps))}`,
      );
      expect(gaps).toHaveLength(CANDIDATES);
      expect(Math.max(...gaps)).toBeLessThan(PATIENT.ttlMs / 2);
      expectSound(trial, buildExpectation(engine, { grantsMin: CANDIDATES + 1 }));
    },
  );

  tests.shared(
    "S2, S6: a `lead` that hangs after its term ends is reported, replaced, rejected by the guard, and stays out until it returns",
    async (arena, place) => {
      const [first, second] = await contenders(arena, place);
      const { trial, held } = await arena.standOff([first, second], {
        election: { hangs: true },
        second: { election: {} },
      });
      const what = "the leader is revoked";
      trial.history.note({ event: "fault", what, process: "first", effect: "other" });
      await second.call("revoke", { resource: trial.resource });
      const [told, next] = await Promise.all([
        first.told(trial, held),
        second.granted(trial, held.token),
      ]);
      trial.history.note({ event: "tookEffect", what, evidence: `it learned: ${told.reason}` });
      await first.event(trial, "overran");
      expect(await first.lateWrite(trial, held)).toBe("refused");
      await second.acts(trial, 20);
      expect(countCampaigns(first, next.at)).toBe(0);
      await first.recover(trial);
      const settled = await first.event(trial, "settled");
      await first.event(trial, "campaigning", settled.at);
      await second.release(trial);
      const again = await first.granted(trial, next.token);
      expect(again.token).toBeGreaterThan(next.token);
      await first.acts(trial, 20);
      // A revocation does not wait for the holder to stop, so only the guard keeps the two apart.
      expectSound(trial, buildExpectation(engine, { grantsMin: 3, notPromised: ["S3", "S4"] }));
    },
  );

  tests.shared(
    "a candidate whose `prepare` fails does not campaign, the resource stays free, and the candidate leads once it is ready",
    async (arena, place) => {
      const [first, second] = await contenders(arena, place);
      const { trial, held } = await arena.standOff([first, second], {
        election: {},
        second: { election: { ready: false } },
      });
      await second.event(trial, "prepareFailed");
      const what = "the leader leaves for good";
      // On a busy machine it may have lost its lease before. The resource is free in both cases.
      const { result } = await first.call("release", { resource: trial.resource });
      expect(["released", undefined]).toContain(result);
      const leftAt = trial.history.note({
        event: "fault",
        what,
        process: "first",
        effect: "gone",
      });
      trial.history.note({ event: "tookEffect", what, evidence: "its release was answered" });
      await second.event(trial, "prepareFailed", leftAt);
      expect(countCampaigns(second, 0)).toBe(0);
      await second.recover(trial);
      const next = await second.granted(trial);
      expect(next.token).toBeGreaterThan(held.token);
      await second.acts(trial, 20);
      expectSound(trial, buildExpectation(engine));
    },
  );
}

function contenders(arena: Arena, place: Place): Promise<[Contender, Contender]> {
  return Promise.all([arena.contender("first", place), arena.contender("second", place)]);
}

/** The first candidate to be granted a token above this one. */
function nextLeader(line: readonly Contender[], trial: Trial, above: bigint): Promise<Leading> {
  return Promise.race(
    line.map(async (leader) => ({ leader, held: await leader.granted(trial, above) })),
  );
}

async function restart({ name, child }: Contender, { history }: Trial): Promise<void> {
  const what = `${name} is restarted`;
  child.signal("SIGTERM");
  expect((await child.exited).code).toBe(0);
  history.note({ event: "fault", what, process: name, effect: "gone" });
  history.note({ event: "tookEffect", what, evidence: "it ended with code 0" });
}

/**
 * The times from the end of one `lead` to the start of the next. Every term but the last was
 * released.
 */
function measureGaps({ history }: Trial): number[] {
  const happenings = history.read();
  const grants = happenings.filter((each) => each.event === "granted");
  return happenings
    .filter((each) => each.event === "released")
    .map(({ token, began, result }) => {
      expect(result).toBe("released");
      const next = grants.find((grant) => grant.token > token);
      return (next?.at ?? Number.NaN) - began;
    });
}

function countCampaigns(candidate: Contender, after: number): number {
  return candidate.child.told.filter(
    ({ event, type, at }) => event === "election" && type === "campaigning" && at > after,
  ).length;
}
