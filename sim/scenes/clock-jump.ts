// Scene: clocks that jump. One machine's wall clock is set back while it cannot reach the store,
// and another machine is suspended, which stops its monotonic clock. A deadline on either clock
// alone is wrong in one of the two cases. No guard is used, so that only the clocks matter.

import { PlainLock } from "./plain-lock.ts";
import type { Scene } from "./scene.ts";
import type { Stage } from "./stage.ts";

const TTL_MS = 10_000;
const RENEW_MS = TTL_MS / 3;
const EVERY_MS = 400;
const SET_BACK_MS = 4_000;

export const clockJump: Scene = {
  name: "clock-jump",
  title: "The clock that jumps",
  story: [
    "A cannot reach the store for 15 seconds, and during that time its wall clock is set back by 4. A deadline on that clock comes 4 seconds late, when B already holds the lease.",
    "Later B's machine is suspended for 14 seconds, which stops its monotonic clock. A deadline on that clock is still far ahead when B wakes up, although A holds the lease.",
    "Tenure uses the monotonic clock with a margin and compares it with the boot clock, so its deadline is right in both cases.",
  ],
  moral:
    "Look at A in the third figure. It stops as soon as a renewal has failed (hatched), long before its deadline, because Tenure does not start work while the lease is in doubt.",
  endsAt: 48_000,
  rows: "writes",
  machines: ["A", "B"],
  resource: "clock-jump",
  ledger: "database",
  lastToken: 0n,
  takes: [
    {
      title: "Deadline on the wall clock",
      how: "A lock with a ttl; before each write: Date.now() < expiresAt.",
      isTenure: false,
      play: (stage) => withLock(stage, "wall"),
    },
    {
      title: "Deadline on the monotonic clock",
      how: "The same with performance.now().",
      isTenure: false,
      play: (stage) => withLock(stage, "monotonic"),
    },
    {
      title: "Tenure, no guard",
      how: "check() before each write.",
      isTenure: true,
      play: (stage) => {
        faults(stage);
        void tenureHolder(stage, "A", 700);
        void tenureHolder(stage, "B", 1_500);
      },
    },
  ],
  shown: ["staleAdmitted", "togetherMs", "lateMs", "noticedMs", "heldBack"],
  expect: ([wall, monotonic, tenure]) => [
    ...((wall?.staleAdmitted ?? 0) > 0 ? [] : ["the wall clock lets A act too long"]),
    ...((monotonic?.staleAdmitted ?? 0) > 0 ? [] : ["the monotonic clock lets B act too long"]),
    ...(tenure?.staleAdmitted === 0 ? [] : ["with Tenure no stale write is admitted"]),
    ...(tenure?.holds === 3 ? [] : ["with Tenure A, B and A again hold"]),
    ...(tenure?.togetherMs === 0 ? [] : ["with Tenure no two holders act at once"]),
    ...((tenure?.heldBack ?? 0) > 0 ? [] : ["check() keeps A from acting in doubt"]),
  ],
};

function faults(stage: Stage): void {
  stage.cutFromStore("A", { from: 5_000, ms: 15_000, label: "cut off from the store" });
  stage.setWall("A", 6_000, -SET_BACK_MS);
  stage.at(6_000, () =>
    stage.says("A", "has its wall clock set back by 4 s", "wall clock \u22124 s"),
  );
  stage.stopMachine("B", "suspended", { from: 25_000, ms: 14_000, label: "suspended" });
}

function withLock(stage: Stage, deadlineClock: "wall" | "monotonic"): void {
  faults(stage);
  void lockHolder(stage, { name: "A", from: 700, deadlineClock });
  void lockHolder(stage, { name: "B", from: 1_500, deadlineClock });
}

async function lockHolder(
  stage: Stage,
  parts: {
    readonly name: string;
    readonly from: number;
    readonly deadlineClock: "wall" | "monotonic";
  },
): Promise<void> {
  const { name, from, deadlineClock } = parts;
  const program = stage.program(name);
  const lock = new PlainLock(stage, program, await stage.store(program), {
    ttlMs: TTL_MS,
    renewEveryMs: RENEW_MS,
    deadlineClock,
  });
  await stage.until(program, from);
  for (let number = 1; ; ) {
    await lock.takeWhenFree(500);
    for (; lock.isMine(); number += 1) {
      const row = `${name} ${number}`;
      void stage.ledger.write(program, { row, token: lock.token, guarded: false });
      await program.sleep(EVERY_MS);
    }
  }
}

async function tenureHolder(stage: Stage, name: string, from: number): Promise<void> {
  const program = stage.program(name);
  const tenure = await stage.tenure(program, { ttlMs: TTL_MS });
  await stage.until(program, from);
  for (let number = 1; ; ) {
    const lease = await tenure.acquire(stage.resource, { waitMs: Number.POSITIVE_INFINITY });
    stage.follow(program, lease);
    for (; !lease.signal.aborted; number += 1) {
      const row = `${name} ${number}`;
      if (stage.mayAct(program, lease))
        void stage.ledger.write(program, { row, token: lease.token, guarded: false });
      await program.sleep(EVERY_MS);
    }
  }
}
