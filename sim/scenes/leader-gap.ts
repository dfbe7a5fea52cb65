// Scene: 11.7 seconds without a leader. A planned restart does not release the lease, a switch
// drops everything for a second, and the successor warms up only after its election. Then the same
// deploy with handover, a warm standby and renewals at ttl/3.

import type { Program } from "../world/program.ts";
import { timeOfDay } from "./clock-text.ts";
import { PlainLock } from "./plain-lock.ts";
import type { Scene } from "./scene.ts";
import type { Stage } from "./stage.ts";

const STARTS_AT = timeOfDay(18, 41, 40);
const at = (minute: number, second: number): number =>
  (timeOfDay(18, minute, second) - STARTS_AT) * 1_000;

const TTL_MS = 10_000;
const WARM_UP_MS = 8_300;
const EVERY_MS = 500;
const OLD = "coord-2";
const SIGTERM_AT = at(41, 58);
const LAST_ACT_AT = at(42, 2);

export const leaderGap: Scene = {
  name: "leader-gap",
  title: "11.7 seconds without a leader",
  story: [
    "coord-2 leads with a ttl of 10 seconds. A rolling deploy asks it to stop at 18:41:58; it finishes its work at 18:42:02 and exits.",
    "It does not release the lease, so the others wait for the ttl and lose an attempt to a switch that drops everything for a second. The one that gets the lease at 18:42:05.4 warms up its cache for 8.3 seconds before it can lead.",
    "With a handover, candidates that are warm before they campaign, and renewals at a third of the ttl, the same deploy has a new leader within milliseconds.",
  ],
  moral:
    "None of the gap was necessary: the leader knew that it would stop, and the successor could have been ready. The switch also drops a renewal of the new leader. With renewals at ttl/3 this costs only a moment of doubt.",
  startsAt: STARTS_AT,
  endsAt: at(42, 18),
  rows: "assignments",
  machines: ["coord-1", OLD, "coord-3"],
  resource: "coordinator",
  ledger: "edges",
  lastToken: 0n,
  takes: [
    {
      title: "Session timeout, no handover",
      how: "Renewals at ttl/2, no release on SIGTERM, an attempt every second, warm-up after the election.",
      isTenure: false,
      play: (stage) => {
        faults(stage);
        void plainLeader(stage);
        void plainFollower(stage, "coord-1", at(41, 48.9));
        void plainFollower(stage, "coord-3", at(41, 49.41));
      },
    },
    {
      title: "Tenure: handover, warm standby, ttl/3",
      how: "SIGTERM calls election.stop({ waitMs: 5000 }); prepare warms up before the campaign.",
      isTenure: true,
      play: (stage) => {
        faults(stage);
        void tenureCandidate(stage, OLD, at(41, 44.09));
        void tenureCandidate(stage, "coord-3", 2_870);
        void tenureCandidate(stage, "coord-1", 3_400);
      },
    },
  ],
  shown: ["gapMs", "togetherMs"],
  expect: ([plain, tenure]) => [
    ...(Math.round((plain?.gapMs ?? 0) / 100) === 117
      ? []
      : ["the deploy leaves 11.7 s without a leader"]),
    ...(tenure?.holds === 2 && tenure.gapMs > 0 ? [] : ["with Tenure there is a next leader"]),
    ...((tenure?.gapMs ?? 1e9) < 200 ? [] : ["with Tenure the gap is below 200 ms"]),
    ...(tenure?.togetherMs === 0 ? [] : ["with Tenure no two leaders act at once"]),
  ],
};

function faults(stage: Stage): void {
  stage.at(SIGTERM_AT, () => stage.says(OLD, "gets SIGTERM from the rolling deploy", "SIGTERM"));
  stage.dropAll({ from: at(42, 4.2), ms: 1_000, label: "switch drops all" });
}

async function plainLeader(stage: Stage): Promise<void> {
  const program = stage.program(OLD);
  const lock = new PlainLock(stage, program, await stage.store(program), {
    ttlMs: TTL_MS,
    renewEveryMs: TTL_MS / 2,
    deadlineClock: "none",
  });
  await stage.until(program, at(41, 44.09));
  await lock.take();
  stage.at(SIGTERM_AT, () => lock.letExpire());
  await assign(stage, program, { token: lock.token, guarded: false }, LAST_ACT_AT);
  exit(stage, program, "has finished its work and exits; the lease is left to expire");
}

async function plainFollower(stage: Stage, name: string, from: number): Promise<void> {
  const program = stage.program(name);
  const lock = new PlainLock(stage, program, await stage.store(program), {
    ttlMs: TTL_MS,
    renewEveryMs: TTL_MS / 2,
    deadlineClock: "none",
  });
  await stage.until(program, from);
  await lock.takeWhenFree(1_000);
  stage.says(name, "is elected and begins to warm up", "warming up", WARM_UP_MS);
  await program.sleep(WARM_UP_MS);
  stage.says(name, "is warm and leads");
  await assign(stage, program, { token: lock.token, guarded: false }, at(43, 0));
}

async function tenureCandidate(stage: Stage, name: string, from: number): Promise<void> {
  const program = stage.program(name);
  const tenure = await stage.tenure(program, { ttlMs: TTL_MS });
  await stage.until(program, from);
  const isOld = name === OLD;
  const election = tenure.election(stage.resource, {
    // The leader at the beginning of the story has been warm for a long time.
    prepare: async () => {
      if (!isOld) {
        stage.says(name, "begins to warm up", "warming up", WARM_UP_MS);
        await program.sleep(WARM_UP_MS);
      }
      stage.says(name, "is warm and campaigns");
    },
    guards: [stage.ledger.guardFor(program)],
    lead: async (lease, stopping) => {
      stage.follow(program, lease);
      const { token } = lease;
      const mayAct = (): boolean => stage.mayAct(program, lease);
      // The work in flight when it is asked to stop takes four more seconds.
      const until = isOld ? LAST_ACT_AT : at(43, 0);
      await assign(stage, program, { token, guarded: true, mayAct }, until);
      if (stopping.aborted) stage.says(name, "has finished its work and hands over");
    },
  });
  election.start();
  if (!isOld) return;
  stage.at(SIGTERM_AT, () => {
    void election.stop({ waitMs: 5_000 }).then((result) => {
      const successor = result.resigned ? result.successor?.holderId : undefined;
      exit(stage, program, `sees that ${successor ?? "no successor"} leads, and exits`);
    });
  });
}

/** What a leader does: one write twice a second, the last one at `until`. */
async function assign(
  stage: Stage,
  program: Program,
  how: { readonly token: bigint; readonly guarded: boolean; readonly mayAct?: () => boolean },
  until: number,
): Promise<void> {
  const { token, guarded, mayAct } = how;
  for (let number = 1; ; number += 1) {
    const row = `${program.name} ${number}`;
    const isDone = (mayAct?.() ?? true) && stage.ledger.write(program, { row, token, guarded });
    const now = stage.schedule.now;
    if (now >= until - 1) {
      await isDone;
      return;
    }
    await stage.until(program, Math.min(until, now + EVERY_MS));
  }
}

function exit(stage: Stage, program: Program, text: string): void {
  stage.says(program.name, text, "exits");
  stage.tale.note(program.name, { kind: "crashed" });
  program.kill();
}
