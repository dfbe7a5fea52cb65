// Faults of the holder's process, as a lease holder or as a leader: it dies, or it is frozen and
// resumes. Expected: the next contender holds within ttl + lag (the time for which the store may
// keep a session after its ttl), with a larger token. The former holder acts no more, and the
// resource rejects its late write. A leader that returns campaigns again. Each fault is recorded in
// the history of its trial, with evidence that it took effect.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { continueTree, stopTree } from "../servers/process-tree.mjs";
import { type CompeteOptions, expectSound } from "../support/faults/fault-arena.ts";
import {
  type AnyEngine,
  buildExpectation,
  type Place,
  type SharedTests,
  takeoverMaxMs,
} from "../support/faults/fault-engine.ts";
import { ms, writeLockIsFree } from "../support/process/process-file.ts";

/** Stops the process outside of a write. Stopped inside one, it would keep a SQLite file locked. */
async function stopOutsideWrites(pid: number, files: readonly string[]): Promise<void> {
  for (;;) {
    await stopTree(pid);
    if (files.every(writeLockIsFree)) return;
    continueTree(pid);
  }
}

/** The store's own file, if the store is a file. */
function storeFiles({ url }: Place): string[] {
  return url.startsWith("sqlite:") ? [url.slice("sqlite:".length)] : [];
}

/** Contenders acquire the lease as a "holder", or are elected as a "leader". */
export function testHolderFaults(
  engine: AnyEngine,
  tests: SharedTests,
  who: "holder" | "leader",
): void {
  const election = who === "leader" ? {} : undefined;

  tests.shared(
    `L1, S1: after SIGKILL of the ${who}, a waiter holds within ttl + lag`,
    async (arena, server) => {
      const [first, second] = await Promise.all([
        arena.contender("first", server),
        arena.contender("second", server),
      ]);
      const as: CompeteOptions = { election };
      const { trial, held } = await arena.standOff([first, second], { ...as, second: as });
      await first.child.kill();
      const what = `the ${who} is killed`;
      const killedAt = trial.history.note({
        event: "fault",
        what,
        process: "first",
        effect: "gone",
      });
      const { signal } = await first.child.exited;
      trial.history.note({ event: "tookEffect", what, evidence: `it ended by ${signal}` });
      expect(signal).toBe("SIGKILL");
      const next = await second.granted(trial);
      expect(next.token).toBeGreaterThan(held.token);
      console.log(`      ${engine.name}: takeover ${ms(next.at - killedAt)} after ${what}`);
      expect(next.at - killedAt).toBeLessThan(takeoverMaxMs(engine));
      await second.acts(trial, 20);
      await second.release(trial);
      expectSound(trial, buildExpectation(engine));
    },
  );

  tests.shared(
    `S4, S6, S2: a ${who} that is stopped for longer than the ttl does not act when it resumes, and its late write is rejected`,
    async (arena, server) => {
      const [first, second] = await Promise.all([
        arena.contender("first", server),
        arena.contender("second", server),
      ]);
      const as: CompeteOptions = { election, options: { whileInDoubt: "act" } };
      const { trial, held } = await arena.standOff([first, second], { ...as, second: as });
      const what = `the ${who} is stopped`;
      await stopOutsideWrites(first.child.pid, [trial.guard, ...storeFiles(server)]);
      trial.history.note({ event: "fault", what, process: "first", effect: "stopped" });
      const next = await second.granted(trial);
      // The command waits in the pipe while the process is stopped: the write is the first thing it
      // does when it resumes.
      const write = first.lateWrite(trial, held);
      await sleep(200);
      trial.history.note({ event: "healed", what });
      const isSilent = first.child.told.every(({ at }) => at < next.at);
      if (isSilent)
        trial.history.note({
          event: "tookEffect",
          what,
          evidence: "it sent nothing while stopped",
        });
      continueTree(first.child.pid);
      expect(await write).toBe("refused");
      const told = await first.told(trial, held);
      expect([told.reason, told.at > next.at]).toEqual(["expired", true]);
      expect(next.token).toBeGreaterThan(held.token);
      if (election !== undefined) await first.event(trial, "campaigning", told.at);
      await second.acts(trial, 20);
      await second.release(trial);
      expectSound(trial, buildExpectation(engine));
    },
  );
}
