// Faults of the store itself: it is frozen past the ttl, or killed and restarted. Expected: while
// it is away nothing is granted and the holder stops by its own deadline; afterwards a contender
// holds again, with a larger token. A store that forgets may grant again before the old holder has
// noticed. Even then tokens increase, so the guard rejects the old holder.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { connect } from "../../src/connect.ts";
import type { RunningServer } from "../servers/server.ts";
import {
  ACTS,
  type Arena,
  type Contender,
  expectSound,
  type Held,
  type Trial,
} from "../support/faults/fault-arena.ts";
import {
  buildExpectation,
  type FaultEngine,
  type FaultTests,
} from "../support/faults/fault-engine.ts";

/** Far below the limit of any request. */
const WATCH_END_MAX_MS = 1_000;

interface Setting {
  readonly trial: Trial;
  readonly first: Contender;
  readonly second: Contender;
  readonly held: Held;
}

export function testStoreFaults(engine: FaultEngine, tests: FaultTests): void {
  const { timing } = engine;

  tests.own(
    "S7: while the store is stopped for longer than the ttl nothing is granted, and afterwards a contender is granted",
    engine.start,
    async (arena, server) => {
      const { trial, first, second, held } = await prepare(arena, server);
      const what = "the store is frozen";
      await server.pause();
      trial.history.note({ event: "fault", what, effect: "unreachable" });
      await noteSilence(server, trial, what);
      const told = await first.told(trial, held);
      expect(told.reason).toBe("expired");
      await sleep(timing.ttlMs);
      trial.history.note({ event: "healed", what });
      await server.resume();
      const next = await Promise.race([
        first.granted(trial, held.token),
        second.granted(trial, held.token),
      ]);
      expect(next.at).toBeGreaterThan(told.at);
      await Promise.race([first.acts(trial, 20), second.acts(trial, 20)]);
      expectSound(trial, buildExpectation(engine));
    },
  );

  tests.own(
    "S1, S7: tokens keep increasing after SIGKILL and restart of a store that persists its grants",
    engine.startDurable ?? engine.start,
    async (arena, server) => {
      const { trial, first, second, held } = await prepare(arena, server);
      const what = "the store is killed";
      await server.kill();
      trial.history.note({ event: "fault", what, effect: "unreachable" });
      await noteSilence(server, trial, what);
      trial.history.note({ event: "healed", what });
      await server.start();
      await sleep(500);
      // Whether or not the first kept its lease: with its process gone, the second is granted.
      await first.child.kill();
      const next = await second.granted(trial, held.token);
      await second.acts(trial, 20);
      await second.release(trial);
      expect(next.token).toBeGreaterThan(held.token);
      expectSound(trial, buildExpectation(engine));
    },
  );

  tests.own(
    "a watch that waits for a frozen store ends when its signal is aborted",
    engine.start,
    async (_, server) => {
      const tenure = await connect(server.url);
      const stop = new AbortController();
      await server.pause();
      try {
        const next = tenure.watch("", { signal: stop.signal }).next();
        // By then its first request is in flight.
        await sleep(300);
        const abortedAt = performance.now();
        stop.abort();
        expect(await next).toEqual({ done: true, value: undefined });
        expect(performance.now() - abortedAt).toBeLessThan(WATCH_END_MAX_MS);
      } finally {
        await server.resume();
        await tenure.close();
      }
    },
  );

  if (engine.startForgetful === undefined) return;
  tests.own(
    "S1, S2: tokens keep increasing after SIGKILL and restart of a store that forgets, and the guard rejects the old holder",
    engine.startForgetful,
    async (arena, server) => {
      const trial = arena.trial();
      const [first, second] = await Promise.all([
        arena.contender("first", server),
        arena.contender("second", server),
      ]);
      await first.compete(trial, { again: true });
      const held = await first.granted(trial);
      await second.compete(trial, { again: true });
      await first.acts(trial, ACTS);
      const what = "the store is killed, and forgets";
      await server.kill();
      trial.history.note({ event: "fault", what, effect: "unreachable" });
      await noteSilence(server, trial, what);
      trial.history.note({ event: "healed", what });
      await server.start();
      const [next] = await Promise.all([
        Promise.race([first.granted(trial, held.token), second.granted(trial, held.token)]),
        // Its session is gone too, and its next renewal reports that.
        first.told(trial, held),
      ]);
      expect(next.token).toBeGreaterThan(held.token);
      expect(await first.lateWrite(trial, held)).toBe("refused");
      await Promise.race([first.acts(trial, 20), second.acts(trial, 20)]);
      // The store has lost the lease, so two contenders may hold it until the old holder renews.
      // The guard keeps their order.
      expectSound(trial, buildExpectation(engine, { notPromised: ["S3", "S4"] }));
    },
  );
}

async function prepare(arena: Arena, server: RunningServer): Promise<Setting> {
  const [first, second] = await Promise.all([
    arena.contender("first", server),
    arena.contender("second", server),
  ]);
  const again = { again: true };
  const { trial, held } = await arena.standOff([first, second], { ...again, second: again });
  return { trial, first, second, held };
}

async function noteSilence(server: RunningServer, trial: Trial, what: string): Promise<void> {
  if (await server.answers(300)) return;
  trial.history.note({ event: "tookEffect", what, evidence: "it does not answer" });
}
