// The clock that jumps: one machine's wall clock is set back while it cannot reach the store, and another is suspended, which
// stops its monotonic clock. A deadline on either clock alone is wrong in one of the two; no guard is used, so that only the
// clocks are seen.

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
    "A cannot reach the store for 15 seconds, and meanwhile its wall clock is set back by 4: a deadline on that clock comes 4 seconds late, and B holds by then.",
    "Later B's machine is suspended for 14 seconds: the monotonic clock stands still, a deadline on that clock lies far ahead when B wakes up, and A holds by then.",
    "Tenure counts on the monotonic clock, less a margin, and compares it with the boot clock: it is wrong in neither.",
  ],
  moral:
    "Look at A in the third figure: it stops as soon as a renewal has failed (hatched), long before its deadline, because work is not started on a guess.",
  endsAt: 48_000, rows: "writes",
  machines: ["A", "B"], resource: "clock-jump", ledger: "database",
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
  shown: ["staleAdmitted", "togetherMs", "lateMs", "toldMs", "heldBack"],
  expect: ([wall, monotonic, tenure]) => [
    ...((wall?.staleAdmitted ?? 0) > 0 ? [] : ["the wall clock lets A act too long"]),
    ...((monotonic?.staleAdmitted ?? 0) > 0 ? [] : ["the monotonic clock lets B act too long"]),
    ...(tenure?.staleAdmitted === 0 ? [] : ["with Tenure nothing stale is written"]),
    ...(tenure?.holds === 3 ? [] : ["with Tenure A, B and A again hold"]),
    ...(tenure?.togetherMs === 0 ? [] : ["with Tenure nobody acts beside another"]),
    ...((tenure?.heldBack ?? 0) > 0 ? [] : ["check() keeps A from acting in doubt"]),
  ],
};

function faults(stage: Stage): void {
  stage.cutFromStore("A", { from: 5_000, ms: 15_000, label: "no path to the store" });
  stage.setWall("A", 6_000, -SET_BACK_MS);
  stage.at(6_000, () =>
    stage.says("A", "has its wall clock set back by 4 s", "wall clock \u22124 s"),
  );
  stage.stopMachine("B", "suspended", { from: 25_000, ms: 14_000, label: "suspended" });
}

function withLock(stage: Stage, looks: "wall" | "monotonic"): void {
  faults(stage);
  void lockHolder(stage, { name: "A", from: 700, looks });
  void lockHolder(stage, { name: "B", from: 1_500, looks });
}

async function lockHolder(
  stage: Stage,
  parts: { readonly name: string; readonly from: number; readonly looks: "wall" | "monotonic" },
): Promise<void> {
  const { name, from, looks } = parts;
  const program = stage.program(name);
  const lock = new PlainLock(stage, program, await stage.store(program), {
    ttlMs: TTL_MS, renewEveryMs: RENEW_MS, looks,
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
