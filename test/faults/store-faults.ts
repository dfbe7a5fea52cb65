// Faults of the store itself: frozen past the ttl, or killed and started again. Expected: while it is away nobody is granted
// and the holder stops by its own deadline; afterwards somebody holds again, with a larger token. A store that forgets
// grants again before the old holder has learned of it, and even there tokens go up, so that the guard refuses the old one.
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
import { type FaultEngine, type FaultTests, usually } from "../support/faults/fault-engine.ts";

/** Far below the limit of any request. */
const WATCH_END_MAX_MS = 1_000;

interface Setting {
  readonly trial: Trial;
  readonly first: Contender;
  readonly second: Contender;
  readonly held: Held;
}

export function storeFaults(engine: FaultEngine, tests: FaultTests): void {
  const { timing } = engine;

  tests.own(
    "S7: SIGSTOP of the store past the ttl: nobody is granted, then somebody is",
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
      expectSound(trial, usually(engine));
    },
  );

  tests.own(
    "S1, S7: SIGKILL and restart of a store that keeps what it granted: tokens go on",
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
      // Whether the first one lived through it or not: with it gone, the second holds.
      await first.child.kill();
      const next = await second.granted(trial, held.token);
      await second.acts(trial, 20);
      await second.release(trial);
      expect(next.token).toBeGreaterThan(held.token);
      expectSound(trial, usually(engine));
    },
  );

  tests.own(
    "a watch that waits for a frozen store ends with its signal",
    engine.start,
    async (_, server) => {
      const tenure = await connect(server.url);
      const stop = new AbortController();
      await server.pause();
      try {
        const next = tenure.watch("", { signal: stop.signal }).next();
        // By then its first request is under way.
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
    "S1, S2: SIGKILL and restart of a store that forgets: tokens go on, and the guard refuses the old one",
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
        // Its session is gone with the rest, and its next renewal says so.
        first.told(trial, held),
      ]);
      expect(next.token).toBeGreaterThan(held.token);
      expect(await first.lateWrite(trial, held)).toBe("refused");
      await Promise.race([first.acts(trial, 20), second.acts(trial, 20)]);
      // The store has lost the lease, so two may hold it until the old holder renews. The guard keeps their order.
      expectSound(trial, usually(engine, { notPromised: ["S3", "S4"] }));
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
  trial.history.note({ event: "bit", what, evidence: "it does not answer" });
}
