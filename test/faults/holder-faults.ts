// Faults of the holder's process: it dies, or it is frozen and goes on. Expected: the next one holds within ttl + lag, with
// a larger token, and the former one does nothing more; what it still writes is refused at the resource.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { continueTree, stopTree } from "../servers/process-tree.mjs";
import { expectSound } from "../support/fault-arena.ts";
import {
  type FaultEngine,
  type FaultTests,
  takeoverMaxMs,
  usually,
} from "../support/fault-engine.ts";
import { writeLockIsFree } from "../support/process-file.ts";

/** Stopped inside its write it would keep the file of the resource locked, and nobody could write until it goes on. */
async function stopOutsideWrite(pid: number, guard: string): Promise<void> {
  for (;;) {
    await stopTree(pid);
    if (writeLockIsFree(guard)) return;
    continueTree(pid);
  }
}

export function holderFaults(engine: FaultEngine, tests: FaultTests): void {
  tests.shared(
    "L1, S1: SIGKILL of the holder: a waiter holds within ttl + lag",
    async (arena, server) => {
      const [first, second] = await Promise.all([
        arena.contender("first", server),
        arena.contender("second", server),
      ]);
      const { trial, held } = await arena.standOff([first, second]);
      await first.child.kill();
      const what = "the holder is killed";
      const killedAt = trial.history.note({
        ...{ event: "fault", what, process: "first", effect: "gone" },
      });
      const { signal } = await first.child.exited;
      trial.history.note({ event: "bit", what, evidence: `it ended by ${signal}` });
      expect(signal).toBe("SIGKILL");
      const next = await second.granted(trial);
      expect(next.token).toBeGreaterThan(held.token);
      expect(next.at - killedAt).toBeLessThan(takeoverMaxMs(engine));
      await second.acts(trial, 20);
      await second.release(trial);
      expectSound(trial, usually(engine));
    },
  );

  tests.shared(
    "S4, S6, S2: SIGSTOP past the ttl, then SIGCONT: no act, and the late write is refused",
    async (arena, server) => {
      const [first, second] = await Promise.all([
        arena.contender("first", server),
        arena.contender("second", server),
      ]);
      const options = { whileInDoubt: "act" } as const;
      const { trial, held } = await arena.standOff([first, second], { options });
      const what = "the holder is stopped";
      await stopOutsideWrite(first.child.pid, trial.guard);
      trial.history.note({ event: "fault", what, process: "first", effect: "stopped" });
      const next = await second.granted(trial);
      // Lies in the pipe while the holder is stopped: the write is the first thing it does when it goes on.
      const write = first.lateWrite(trial, held);
      await sleep(200);
      trial.history.note({ event: "healed", what });
      const isSilent = first.child.told.every(({ at }) => at < next.at);
      if (isSilent)
        trial.history.note({ event: "bit", what, evidence: "it said nothing meanwhile" });
      continueTree(first.child.pid);
      expect(await write).toBe("refused");
      const told = await first.told(trial, held);
      expect([told.reason, told.at > next.at]).toEqual(["expired", true]);
      expect(next.token).toBeGreaterThan(held.token);
      await second.acts(trial, 20);
      await second.release(trial);
      expectSound(trial, usually(engine));
    },
  );
}
