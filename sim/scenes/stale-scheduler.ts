// Scene: a stale scheduler. It reads that it owns the lease, the answer is correct, but it is out
// of date when the scheduler acts on it. Two schedulers place the same workloads.

import type { Program } from "../world/program.ts";
import { PlainLock } from "./plain-lock.ts";
import type { Scene } from "./scene.ts";
import type { Stage } from "./stage.ts";

const TTL_MS = 10_000;
const WORKLOADS = 12;
/** How many are placed in the turn in which the read was answered. */
const IN_THE_TURN = 6;
const ROUND_AT = 12_000;
const PAUSE_MS = 15_000;
const READ_LIMIT_MS = 1_000;

export const staleScheduler: Scene = {
  name: "stale-scheduler",
  title: "The scheduler that acted on a stale read",
  story: [
    "Scheduler A reads that it owns the lease, with token 41, and is stopped for 15 seconds before it writes its decisions.",
    "The lease expires, and B gets token 42 and places twelve workloads.",
    "When A resumes, it writes its own twelve placements, based on a read that is no longer true.",
  ],
  moral:
    "The store did nothing wrong: the read was linearizable. But the database that A writes to did not know who owned the lease. A token in each write tells it.",
  endsAt: 34_000,
  rows: "workloads",
  double: "placed by two schedulers",
  machines: ["A", "B"],
  resource: "scheduler",
  ledger: "workloads",
  lastToken: 40n,
  takes: [
    {
      title: "Read the owner, then write",
      how: "Each round begins with a read of the lease. If the scheduler owns it, it places everything.",
      isTenure: false,
      play: (stage) => {
        void plainA(stage);
        void plainB(stage);
      },
    },
    {
      title: "Tenure and a guard",
      how: "check() before each placement, and the token in each write.",
      isTenure: true,
      play: (stage) => {
        void tenureA(stage);
        void tenureB(stage);
      },
    },
  ],
  shown: [
    "rows",
    "doubles",
    "staleAdmitted",
    "staleRefused",
    "heldBack",
    "togetherMs",
    "lateMs",
    "noticedMs",
  ],
  expect: ([plain, tenure]) => [
    ...(plain?.doubles === WORKLOADS ? [] : [`${WORKLOADS} workloads are placed twice`]),
    ...(tenure?.doubles === 0 ? [] : ["with Tenure no workload is placed twice"]),
    ...(tenure?.staleRefused === IN_THE_TURN ? [] : [`the guard refuses ${IN_THE_TURN} writes`]),
    ...((tenure?.heldBack ?? 0) > 0 ? [] : ["check() stops the rest"]),
    ...(tenure?.rows === WORKLOADS ? [] : ["every workload is placed"]),
  ],
};

/** The pause between a decision and its writes. */
function pause(stage: Stage, program: Program): void {
  stage.pauseNow(program, PAUSE_MS, "stopped between check and write");
}

async function plainA(stage: Stage): Promise<void> {
  const program = stage.program("A");
  const store = await stage.store(program);
  const lock = plainLock(stage, program, store);
  await stage.until(program, 1_000);
  await lock.take();
  await stage.until(program, ROUND_AT);
  const request = { resource: stage.resource, limitMs: READ_LIMIT_MS };
  const { holder } = await store.read({ ...request, consistency: "linearizable" });
  if (holder?.holderId !== program.name) return;
  const { token } = lock;
  stage.says("A", `reads that it owns the lease, with token ${token}`, "reads: mine");
  pause(stage, program);
  place(stage, program, { token, guarded: false }, 1, IN_THE_TURN);
  await program.sleep(200);
  // The round continues: the read said that it owns the lease, and that was correct at the time.
  for (let index = IN_THE_TURN + 1; index <= WORKLOADS; index += 1) {
    place(stage, program, { token, guarded: false }, index, index);
    await program.sleep(200);
  }
  lock.lose("finds after its round that the lease is gone");
}

async function plainB(stage: Stage): Promise<void> {
  const program = stage.program("B");
  const lock = plainLock(stage, program, await stage.store(program));
  await stage.until(program, 2_300);
  await lock.takeWhenFree(500);
  for (let index = 1; index <= WORKLOADS; index += 1) {
    place(stage, program, { token: lock.token, guarded: false }, index, index);
    await program.sleep(200);
  }
}

async function tenureA(stage: Stage): Promise<void> {
  const program = stage.program("A");
  const tenure = await stage.tenure(program, { ttlMs: TTL_MS });
  await stage.until(program, 1_000);
  const lease = await tenure.acquire(stage.resource);
  stage.follow(program, lease);
  await stage.until(program, ROUND_AT);
  const { token } = lease;
  if (!stage.mayAct(program, lease)) return;
  stage.says("A", `check() says yes, with token ${token}`, "check(): yes");
  pause(stage, program);
  place(stage, program, { token, guarded: true }, 1, IN_THE_TURN);
  await program.sleep(200);
  for (let index = IN_THE_TURN + 1; index <= WORKLOADS; index += 1) {
    if (stage.mayAct(program, lease)) place(stage, program, { token, guarded: true }, index, index);
    await program.sleep(200);
  }
}

async function tenureB(stage: Stage): Promise<void> {
  const program = stage.program("B");
  const tenure = await stage.tenure(program, { ttlMs: TTL_MS });
  await stage.until(program, 2_300);
  const guards = [stage.ledger.guardFor(program)];
  const lease = await tenure.acquire(stage.resource, {
    waitMs: Number.POSITIVE_INFINITY,
    guards,
  });
  stage.follow(program, lease);
  for (let index = 1; index <= WORKLOADS; index += 1) {
    if (stage.mayAct(program, lease))
      place(stage, program, { token: lease.token, guarded: true }, index, index);
    await program.sleep(200);
  }
}

function plainLock(
  stage: Stage,
  program: Program,
  store: Awaited<ReturnType<Stage["store"]>>,
): PlainLock {
  const timing = { ttlMs: TTL_MS, renewEveryMs: TTL_MS / 3 };
  return new PlainLock(stage, program, store, {
    ...timing,
    deadlineClock: "none",
    ignoresLoss: true,
  });
}

function place(
  stage: Stage,
  program: Program,
  how: { readonly token: bigint; readonly guarded: boolean },
  from: number,
  to: number,
): void {
  for (let index = from; index <= to; index += 1)
    void stage.ledger.write(program, { row: `workload ${index}`, ...how });
}
