// Faults of the link between the holder and the store, while a second contender has a good link.
// Expected: the holder stops by its own deadline, before the second contender is granted, and
// competes again when the link works. If the fault is short, the holder continues and no other
// contender is granted.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { TcpProxy } from "../servers/proxy.ts";
import type { RunningServer } from "../servers/server.ts";
import {
  type Arena,
  type Contender,
  expectSound,
  type Held,
  type StandOffOptions,
  type Trial,
} from "../support/faults/fault-arena.ts";
import {
  buildExpectation,
  type FaultEngine,
  type FaultTests,
  takeoverMaxMs,
} from "../support/faults/fault-engine.ts";
import type { Fault } from "../support/faults/history.ts";
import type { Told } from "../support/process/child.ts";

const CUTS = 10;
const CUTS_AT_A_TIME = 5;

interface Setting {
  readonly trial: Trial;
  readonly proxy: TcpProxy;
  /** Connected through the proxy. */
  readonly first: Contender;
  /** Connected directly; it waits. */
  readonly second: Contender;
  readonly held: Held;
}

export function testLinkFaults(engine: FaultEngine, tests: FaultTests): void {
  const { timing } = engine;

  tests.shared(
    `S3, S4, S6: a holder that is silently cut off stops before the next grant, ${CUTS} trials`,
    async (arena, server) => {
      const second = await arena.contender("second", server);
      const libraries = engine.libraries ?? [undefined];
      const doubts: boolean[] = [];
      for (let done = 0; done < CUTS; done += CUTS_AT_A_TIME) {
        const batch = Array.from({ length: CUTS_AT_A_TIME }, (_, index) =>
          cutOff(arena, server, second, {
            library: libraries[(done + index) % libraries.length],
            // "act" is the stricter case: only the deadline ends the holder's acts.
            whileInDoubt: index % 2 === 0 ? "act" : "stop",
            engine,
          }),
        );
        doubts.push(...(await Promise.all(batch)));
      }
      // The holder is notified of every failed renewal unless it asked not to be. Not in each
      // trial: on a busy machine the doubt and the loss may come at once.
      expect(doubts).toContain(true);
    },
  );

  tests.shared(
    "S3, S4, S6: a leader that is cut off stops before the next one leads, and campaigns again when the link works",
    async (arena, server) => {
      const setting = await prepare(arena, server, { election: {}, second: { election: {} } });
      const { proxy } = setting;
      await loseAndReturn(engine, setting, {
        what: "the leader is cut off",
        effect: "unreachable",
        begin: () => proxy.cut(),
        evidence: () => countLostBytes(proxy) > 0 && "bytes were lost",
      });
    },
  );

  tests.shared(
    "S3, S4: renewals whose replies are lost do not extend the lease",
    async (arena, server) => {
      const setting = await prepare(arena, server);
      const { proxy } = setting;
      await loseAndReturn(engine, setting, {
        what: "replies are lost",
        effect: "unreachable",
        begin: () => proxy.cut("replies"),
        evidence: () => proxy.counts().replies.droppedBytes > 0 && "replies were dropped",
      });
    },
  );

  tests.shared(
    "S3, S4: a reply that comes after the request's limit does not extend the lease",
    async (arena, server) => {
      const setting = await prepare(arena, server);
      const { proxy } = setting;
      // A request may have passed just before, so that only its reply is delayed.
      const messages = (): number => proxy.counts().requests.chunks + proxy.counts().replies.chunks;
      let before = 0;
      await loseAndReturn(engine, setting, {
        what: "a round trip takes longer than the ttl",
        effect: "other",
        begin: () => {
          before = messages();
          proxy.delay(timing.ttlMs * 0.75);
        },
        evidence: () => messages() > before && "messages were delayed",
      });
    },
  );

  tests.shared(
    "L3: reset connections cost the holder a renewal but not the lease",
    async (arena, server) => {
      // Long enough to reconnect on any machine; the test is about whether the holder does.
      const options = { ttlMs: 10_000, renewEveryMs: 1_000, roundTripMs: 3_000 };
      const { trial, proxy, first, second, held } = await prepare(arena, server, { options });
      const what = "connections are reset, and new ones refused";
      proxy.reset();
      proxy.refuse();
      trial.history.note({ event: "fault", what, process: "first", effect: "unreachable" });
      const { connections } = proxy.counts();
      // A client that reconnects between two renewals would lose none, so wait for a failed one.
      const isOfTrial = ({ resource }: Told): boolean => resource === trial.resource;
      await first.child.heard("doubted", isOfTrial);
      const healedAt = trial.history.note({ event: "healed", what });
      await proxy.heal();
      await first.child.heard("settled", (told) => isOfTrial(told) && told.at > healedAt);
      if (proxy.counts().connections > connections)
        trial.history.note({ event: "tookEffect", what, evidence: "it has connected again" });
      expect(first.hasBeenTold(trial, held)).toBe(false);
      expect(second.child.told.map(({ event }) => event)).not.toContain("granted");
      await first.acts(trial, 20);
      await first.release(trial);
      const next = await second.granted(trial, held.token);
      await second.acts(trial, 20);
      expect(next.token).toBeGreaterThan(held.token);
      expectSound(trial, buildExpectation(engine));
    },
  );

  tests.shared(
    "S1, S4: if requests arrive twice, the holder continues or learns that it lost the lease, and terms do not overlap",
    async (arena, server) => {
      const { trial, proxy, first, second, held } = await prepare(arena, server);
      const what = "requests arrive twice";
      const before = proxy.counts().requests.chunks;
      proxy.duplicate();
      trial.history.note({ event: "fault", what, process: "first", effect: "other" });
      await sleep(timing.ttlMs);
      if (proxy.counts().requests.chunks > before)
        trial.history.note({ event: "tookEffect", what, evidence: "requests were sent twice" });
      trial.history.note({ event: "healed", what });
      await proxy.heal();
      // Some protocols survive duplicates, others close the connection. In both cases the holder
      // acts on or learns of its loss; it must not hang.
      await Promise.race([first.acts(trial, 20), first.told(trial, held)]);
      // Whether or not the first still holds: with its process gone, the second is granted.
      await first.child.kill();
      const next = await second.granted(trial, held.token);
      await second.acts(trial, 20);
      expect(next.token).toBeGreaterThan(held.token);
      await second.release(trial);
      expectSound(trial, buildExpectation(engine));
    },
  );
}

async function prepare(
  arena: Arena,
  server: RunningServer,
  how: StandOffOptions = {},
): Promise<Setting> {
  const proxy = await arena.proxy(server);
  const [first, second] = await Promise.all([
    arena.contender("first", proxy),
    arena.contender("second", server),
  ]);
  const { trial, held } = await arena.standOff([first, second], { again: true, ...how });
  return { trial, proxy, first, second, held };
}

interface CutOptions {
  readonly engine: FaultEngine;
  readonly library: string | undefined;
  readonly whileInDoubt: "act" | "stop";
}

/** Returns whether the holder was in doubt before it lost the lease. */
async function cutOff(
  arena: Arena,
  server: RunningServer,
  second: Contender,
  { engine, library, whileInDoubt }: CutOptions,
): Promise<boolean> {
  const proxy = await arena.proxy(server);
  const first = await arena.contender("first", proxy, library);
  const { trial, held } = await arena.standOff([first, second], { options: { whileInDoubt } });
  const what = "the holder is cut off";
  proxy.cut();
  const cutAt = trial.history.note({
    event: "fault",
    what,
    process: "first",
    effect: "unreachable",
  });
  const [told, next] = await Promise.all([first.told(trial, held), second.granted(trial)]);
  // In either direction: a client that lost a reply may send nothing more on that connection.
  if (countLostBytes(proxy) > 0)
    trial.history.note({
      event: "tookEffect",
      what,
      evidence: `${countLostBytes(proxy)} bytes were lost`,
    });
  expect(told.at).toBeLessThan(next.at);
  expect(next.at - cutAt).toBeLessThan(takeoverMaxMs(engine));
  trial.history.note({ event: "healed", what });
  await proxy.heal();
  expect(await first.lateWrite(trial, held)).toBe("refused");
  await second.acts(trial, 20);
  await second.release(trial);
  expectSound(trial, buildExpectation(engine));
  return trial.history.read().some(({ event }) => event === "doubted");
}

function countLostBytes(proxy: TcpProxy): number {
  const { requests, replies } = proxy.counts();
  return requests.droppedBytes + replies.droppedBytes;
}

interface LinkFault extends Pick<Fault, "what" | "effect"> {
  begin(): void;
  /** Evidence from outside that the fault had an effect, or false. */
  evidence(): string | false;
}

/**
 * The holder loses the lease because of the fault, the second gets it, and after the fault the
 * first gets it again.
 */
async function loseAndReturn(
  engine: FaultEngine,
  { trial, proxy, first, second, held }: Setting,
  { what, effect, begin, evidence }: LinkFault,
): Promise<void> {
  begin();
  trial.history.note({ event: "fault", what, process: "first", effect });
  const [told, next] = await Promise.all([first.told(trial, held), second.granted(trial)]);
  expect(told.at).toBeLessThan(next.at);
  expect(next.token).toBeGreaterThan(held.token);
  const shown = evidence();
  if (shown !== false) trial.history.note({ event: "tookEffect", what, evidence: shown });
  trial.history.note({ event: "healed", what });
  await proxy.heal();
  await second.acts(trial, 20);
  await second.release(trial);
  const again = await first.granted(trial, next.token);
  expect(again.token).toBeGreaterThan(next.token);
  await first.acts(trial, 20);
  await first.release(trial);
  expectSound(trial, buildExpectation(engine, { grantsMin: 3 }));
}
