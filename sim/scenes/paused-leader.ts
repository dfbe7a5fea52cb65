// Scene: a paused leader, with and without a guard. The whole machine stands still for 12 seconds,
// including its clocks. No program on it can know that, so no check on it can help. Only the
// resource can.

import type { AcquireOptions } from "../../src/holder/options.ts";
import { PlainLock } from "./plain-lock.ts";
import type { Scene } from "./scene.ts";
import type { Stage } from "./stage.ts";

const TTL_MS = 10_000;
const RENEW_MS = 3_000;
const EVERY_MS = 400;
const FROZEN = { from: 6_400, ms: 12_000, label: "virtual machine frozen" };
const TIMING: AcquireOptions = { ttlMs: TTL_MS, renewEveryMs: RENEW_MS };

export const pausedLeader: Scene = {
  name: "paused-leader",
  title: "The leader that did not know it had been paused",
  story: [
    "node-A leads with token 42, a ttl of 10 seconds and a renewal every 3. Its virtual machine is frozen for 12 seconds, and its clocks stand still with it.",
    "The lease expires at the store, and node-B leads with token 43.",
    "When node-A resumes, its own clock says that no time has passed, and until its next renewal is answered it leads at the same time as node-B.",
  ],
  moral:
    "Without a guard, Tenure does no better here than a lock: a holder whose clocks stood still cannot know. This is the case for guards, and the reason why every grant has a token.",
  endsAt: 30_000,
  rows: "dispatches",
  machines: ["node-A", "node-B"],
  resource: "dispatch/leader",
  ledger: "orders",
  lastToken: 41n,
  takes: [
    {
      title: "A lock with a ttl",
      how: "Leads until a renewal says that the lock is gone.",
      isTenure: false,
      play: (stage) => {
        stage.stopMachine("node-A", "frozen", FROZEN);
        void plainCandidate(stage, "node-A", 300);
        // Polls just after the expiry, so that the timing of the poll makes no difference.
        void plainCandidate(stage, "node-B", 1_340);
      },
    },
    {
      title: "Tenure without a guard",
      how: "check() before each write; the database accepts every write.",
      isTenure: true,
      play: (stage) => withTenure(stage, false),
    },
    {
      title: "Tenure with a guard",
      how: "The same, and the database refuses a token below the highest it has seen.",
      isTenure: true,
      play: (stage) => withTenure(stage, true),
    },
  ],
  shown: ["staleAdmitted", "staleRefused", "togetherMs", "lateMs", "noticedMs"],
  expect: ([plain, open, guarded]) => [
    ...((plain?.staleAdmitted ?? 0) > 0 ? [] : ["with the lock stale writes are admitted"]),
    ...((open?.staleAdmitted ?? 0) > 0 ? [] : ["without a guard stale writes are admitted"]),
    ...(guarded?.staleAdmitted === 0 ? [] : ["the guard admits no stale write"]),
    ...((guarded?.staleRefused ?? 0) > 0 ? [] : ["the guard refuses a stale write"]),
  ],
};

async function plainCandidate(stage: Stage, name: string, from: number): Promise<void> {
  const program = stage.program(name);
  const lock = new PlainLock(stage, program, await stage.store(program), {
    ttlMs: TTL_MS,
    renewEveryMs: RENEW_MS,
    deadlineClock: "none",
  });
  await stage.until(program, from);
  await lock.takeWhenFree(1_000);
  for (let number = 1; lock.isMine(); number += 1) {
    const row = `${name} ${number}`;
    void stage.ledger.write(program, { row, token: lock.token, guarded: false });
    await program.sleep(EVERY_MS);
  }
}

function withTenure(stage: Stage, guarded: boolean): void {
  stage.stopMachine("node-A", "frozen", FROZEN);
  void candidate(stage, "node-A", { from: 300, guarded });
  void candidate(stage, "node-B", { from: 1_250, guarded });
}

async function candidate(
  stage: Stage,
  name: string,
  { from, guarded }: { readonly from: number; readonly guarded: boolean },
): Promise<void> {
  const program = stage.program(name);
  const tenure = await stage.tenure(program, TIMING);
  await stage.until(program, from);
  const election = tenure.election(stage.resource, {
    guards: guarded ? [stage.ledger.guardFor(program)] : [],
    // One term each: the story ends when the old leader learns of its loss.
    campaignAgain: false,
    onEvent: () => undefined,
    lead: async (lease, stopping) => {
      stage.follow(program, lease);
      for (let number = 1; !stopping.aborted; number += 1) {
        const row = `${name} ${number}`;
        if (stage.mayAct(program, lease))
          void stage.ledger.write(program, { row, token: lease.token, guarded });
        await program.sleep(EVERY_MS);
      }
    },
  });
  election.start();
}
