// Scene: a settlement batch runs twice. A garbage collection stops the program for 41.3 seconds in
// the middle of a batch, and payments that had left it before reach the ledger long after.

import type { Program } from "../world/program.ts";
import { timeOfDay } from "./clock-text.ts";
import { PlainLock } from "./plain-lock.ts";
import type { Scene } from "./scene.ts";
import type { Stage } from "./stage.ts";

const STARTS_AT = timeOfDay(11, 46, 10);
/** Converts a time of day of the story to the scene's own time. */
const at = (minute: number, second: number): number =>
  (timeOfDay(11, minute, second) - STARTS_AT) * 1_000;

const TTL_MS = 30_000;
const RENEW_MS = 10_000;
const PAUSE_MS = 41_300;
const PAYMENTS = 100;
/**
 * How many of the payments had been sent when the pause came. The last few are sent in the same
 * turn.
 */
const ISSUED = 47;
const IN_THE_TURN = 7;

/** How one take ensures that there is one holder. */
interface Claim {
  readonly token: bigint;
  readonly guarded: boolean;
  /** Checked before each payment. */
  mayPay(): boolean;
}

export const settlement: Scene = {
  name: "settlement",
  title: "The settlement batch that ran twice",
  story: [
    "node-2 holds a 30-second lease and is in the middle of a batch of 100 payments when a garbage collection stops it for 41.3 seconds. 47 payments have left the program and wait in its socket's buffer.",
    "The lease expires at 11:47:13, and node-3 takes over and pays the whole batch.",
    "Then the buffer drains, and 47 payments of the former holder reach the ledger.",
  ],
  moral:
    "Checking the lease before each payment does not help here: node-2 checked, and the answer was correct. Only the ledger can distinguish a late payment from a valid one, by its token.",
  startsAt: STARTS_AT,
  endsAt: at(47, 36),
  rows: "payments",
  double: "paid twice",
  machines: ["node-2", "node-3"],
  resource: "settlement",
  ledger: "ledger",
  lastToken: 4718n,
  shownFrom: at(46, 30),
  takes: [
    {
      title: "A lock with a ttl",
      how: "Both check the lock when a batch begins, and the ledger accepts every write.",
      isTenure: false,
      play: (stage) => {
        faults(stage);
        void plainOld(stage);
        void plainNew(stage);
      },
    },
    {
      title: "Tenure and a guard",
      how: "Every payment carries its token, and the ledger's guard refuses a token below the highest it has seen.",
      isTenure: true,
      play: (stage) => {
        faults(stage);
        void tenureOld(stage);
        void tenureNew(stage);
      },
    },
  ],
  shown: ["rows", "doubles", "staleAdmitted", "staleRefused", "togetherMs", "lateMs", "noticedMs"],
  expect: ([plain, tenure]) => [
    ...(plain?.doubles === ISSUED ? [] : [`with the lock ${ISSUED} payments are made twice`]),
    ...(tenure?.doubles === 0 ? [] : ["with Tenure no payment is made twice"]),
    ...(tenure?.staleRefused === ISSUED ? [] : [`the guard refuses ${ISSUED} late payments`]),
    ...(tenure?.rows === PAYMENTS ? [] : ["every payment is made"]),
    ...(tenure?.togetherMs === 0 ? [] : ["with Tenure no two holders act at once"]),
  ],
};

function faults(stage: Stage): void {
  const from = at(46, 44);
  stage.stuckBuffer("node-2", {
    from,
    ms: at(47, 26) - from,
    label: "socket buffer is not drained",
  });
}

async function plainOld(stage: Stage): Promise<void> {
  const program = stage.program("node-2");
  const lock = await plainLock(stage, program);
  await stage.until(program, at(46, 13) + 10);
  await lock.take();
  const { token } = lock;
  // It checked when the batch began, and does not check again before its end.
  await payUntilPaused(stage, program, { token, guarded: false, mayPay: () => true });
  if (lock.isExpired()) lock.lose("wakes up, finds its lock expired and stops");
}

async function plainNew(stage: Stage): Promise<void> {
  const program = stage.program("node-3");
  const lock = await plainLock(stage, program);
  await stage.until(program, at(46, 20) + 4);
  await lock.takeWhenFree(1_000);
  const { token } = lock;
  await payAll(stage, program, { token, guarded: false, mayPay: () => lock.isMine() });
  await lock.release();
}

async function tenureOld(stage: Stage): Promise<void> {
  const program = stage.program("node-2");
  const tenure = await stage.tenure(program, { ttlMs: TTL_MS, renewEveryMs: RENEW_MS });
  await stage.until(program, at(46, 13) + 10);
  const lease = await tenure.acquire("settlement");
  stage.follow(program, lease);
  const { token } = lease;
  const mayPay = (): boolean => lease.check() === token;
  await lease
    .run(() => payUntilPaused(stage, program, { token, guarded: true, mayPay }))
    .catch((error: unknown) => stage.heldBack(program, error));
}

async function tenureNew(stage: Stage): Promise<void> {
  const program = stage.program("node-3");
  const tenure = await stage.tenure(program, { ttlMs: TTL_MS, renewEveryMs: RENEW_MS });
  await stage.until(program, at(46, 20));
  const guards = [stage.ledger.guardFor(program)];
  const lease = await tenure.acquire("settlement", { waitMs: Number.POSITIVE_INFINITY, guards });
  stage.follow(program, lease);
  const { token } = lease;
  const mayPay = (): boolean => lease.check() === token;
  await lease.run(() => payAll(stage, program, { token, guarded: true, mayPay }));
  await lease.release();
}

async function plainLock(stage: Stage, program: Program): Promise<PlainLock> {
  const store = await stage.store(program);
  return new PlainLock(stage, program, store, {
    ttlMs: TTL_MS,
    renewEveryMs: RENEW_MS,
    deadlineClock: "none",
  });
}

/**
 * Pays the batch of 11:46 up to the garbage collection in the middle of a turn, and tries the next
 * payment after it.
 */
async function payUntilPaused(stage: Stage, program: Program, claim: Claim): Promise<void> {
  await stage.until(program, at(46, 44));
  stage.says("node-2", `begins the batch of 11:46 with token ${claim.token}`);
  for (let index = 1; index <= ISSUED - IN_THE_TURN; index += 1) {
    pay(stage, program, claim, index);
    await program.sleep(105);
  }
  await stage.until(program, at(46, 48.412));
  stage.says("node-2", `has sent ${ISSUED - IN_THE_TURN} payments, and sends ${IN_THE_TURN} more`);
  claim.mayPay();
  stage.pauseNow(program, PAUSE_MS, "garbage collection");
  for (let index = ISSUED - IN_THE_TURN + 1; index <= ISSUED; index += 1)
    send(stage, program, claim, index);
  await program.sleep(105);
  claim.mayPay();
}

/** Takes nine seconds for the payments that have not been made yet. */
async function payAll(stage: Stage, program: Program, claim: Claim): Promise<void> {
  stage.says(program.name, `pays the whole batch with token ${claim.token}`);
  for (let index = 1; index <= PAYMENTS; index += 1) {
    if (!stage.ledger.has(rowName(index))) pay(stage, program, claim, index);
    await program.sleep(90);
  }
  stage.says(program.name, "has finished the batch");
}

function pay(stage: Stage, program: Program, claim: Claim, index: number): void {
  if (claim.mayPay()) send(stage, program, claim, index);
}

function send(stage: Stage, program: Program, { token, guarded }: Claim, index: number): void {
  void stage.ledger.write(program, { row: rowName(index), token, guarded });
}

function rowName(index: number): string {
  return `payment ${index}`;
}
