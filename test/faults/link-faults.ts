// Faults of the link between one holder and the store, while a second contender reaches the store well. Expected: the holder
// stops by its own deadline, before the second is granted, and takes part again when the link is whole; or, where the
// fault is short, it goes on and nobody else is granted.
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
  type FaultEngine,
  type FaultTests,
  takeoverMaxMs,
  usually,
} from "../support/faults/fault-engine.ts";
import type { Fault } from "../support/faults/history.ts";
import type { Told } from "../support/process/child.ts";

const CUTS = 10;
const CUTS_AT_A_TIME = 5;

interface Setting {
  readonly trial: Trial;
  readonly proxy: TcpProxy;
  /** Behind the proxy. */
  readonly first: Contender;
  /** With a good link; it waits. */
  readonly second: Contender;
  readonly held: Held;
}

export function linkFaults(engine: FaultEngine, tests: FaultTests): void {
  const { timing } = engine;

  tests.shared(
    `S3, S4, S6: a silent cut: the holder knows before the next one is granted, ${CUTS} trials`,
    async (arena, server) => {
      const second = await arena.contender("second", server);
      const libraries = engine.libraries ?? [undefined];
      const doubts: boolean[] = [];
      for (let done = 0; done < CUTS; done += CUTS_AT_A_TIME) {
        const batch = Array.from({ length: CUTS_AT_A_TIME }, (_, index) =>
          cutOff(arena, server, second, {
            library: libraries[(done + index) % libraries.length],
            // The sharper one of the two: then nothing but the deadline ends its acts.
            whileInDoubt: index % 2 === 0 ? "act" : "stop",
            engine,
          }),
        );
        doubts.push(...(await Promise.all(batch)));
      }
      // Told of every failed renewal unless it asked not to be. Not each time: a busy machine may bring both at once.
      expect(doubts).toContain(true);
    },
  );

  tests.shared(
    "S3, S4, S6: a leader that is cut off knows before the next one leads, and campaigns again when it is healed",
    async (arena, server) => {
      const setting = await prepare(arena, server, { election: {}, second: { election: {} } });
      const { proxy } = setting;
      await loseAndReturn(engine, setting, {
        what: "the leader is cut off",
        effect: "unreachable",
        begin: () => proxy.cut(),
        evidence: () => lostBytes(proxy) > 0 && "bytes were lost",
      });
    },
  );

  tests.shared(
    "S3, S4: replies lost, requests not: renewals that nobody confirms count for nothing",
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

  tests.shared("S3, S4: a delay beyond the request's limit is no answer", async (arena, server) => {
    const setting = await prepare(arena, server);
    const { proxy } = setting;
    // A request may have passed just before, and only its answer be late.
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
  });

  tests.shared(
    "L3: connections that are reset cost the holder a renewal, not the lease",
    async (arena, server) => {
      // Time enough to connect again on any machine; what is asked here is that it does.
      const options = { ttlMs: 10_000, renewEveryMs: 1_000, roundTripMs: 3_000 };
      const { trial, proxy, first, second, held } = await prepare(arena, server, { options });
      const what = "connections are reset, and new ones refused";
      proxy.reset();
      proxy.refuse();
      trial.history.note({ event: "fault", what, process: "first", effect: "unreachable" });
      const { connections } = proxy.counts();
      // A client that connects again between two renewals would lose none: it has to have failed once.
      const isOfTrial = ({ resource }: Told): boolean => resource === trial.resource;
      await first.child.heard("doubted", isOfTrial);
      const healedAt = trial.history.note({ event: "healed", what });
      await proxy.heal();
      await first.child.heard("settled", (told) => isOfTrial(told) && told.at > healedAt);
      if (proxy.counts().connections > connections)
        trial.history.note({ event: "bit", what, evidence: "it has connected again" });
      expect(first.hasBeenTold(trial, held)).toBe(false);
      expect(second.child.told.map(({ event }) => event)).not.toContain("granted");
      await first.acts(trial, 20);
      await first.release(trial);
      const next = await second.granted(trial, held.token);
      await second.acts(trial, 20);
      expect(next.token).toBeGreaterThan(held.token);
      expectSound(trial, usually(engine));
    },
  );

  tests.shared(
    "S1, S4: requests that arrive twice: the holder goes on or is told, and nobody overlaps",
    async (arena, server) => {
      const { trial, proxy, first, second, held } = await prepare(arena, server);
      const what = "requests arrive twice";
      const before = proxy.counts().requests.chunks;
      proxy.duplicate();
      trial.history.note({ event: "fault", what, process: "first", effect: "other" });
      await sleep(timing.ttlMs);
      if (proxy.counts().requests.chunks > before)
        trial.history.note({ event: "bit", what, evidence: "requests were sent twice" });
      trial.history.note({ event: "healed", what });
      await proxy.heal();
      // Some protocols survive it and some break the connection off. Either way it acts on or is told; it does not hang.
      await Promise.race([first.acts(trial, 20), first.told(trial, held)]);
      // Whoever holds it now: with the first gone, the second does.
      await first.child.kill();
      const next = await second.granted(trial, held.token);
      await second.acts(trial, 20);
      expect(next.token).toBeGreaterThan(held.token);
      await second.release(trial);
      expectSound(trial, usually(engine));
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

/** Whether the holder was in doubt first. */
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
    ...{ event: "fault", what, process: "first", effect: "unreachable" },
  });
  const [told, next] = await Promise.all([first.told(trial, held), second.granted(trial)]);
  // Either way: a client that lost one reply may not send anything more on that connection.
  if (lostBytes(proxy) > 0)
    trial.history.note({ event: "bit", what, evidence: `${lostBytes(proxy)} bytes were lost` });
  expect(told.at).toBeLessThan(next.at);
  expect(next.at - cutAt).toBeLessThan(takeoverMaxMs(engine));
  trial.history.note({ event: "healed", what });
  await proxy.heal();
  expect(await first.lateWrite(trial, held)).toBe("refused");
  await second.acts(trial, 20);
  await second.release(trial);
  expectSound(trial, usually(engine));
  return trial.history.read().some(({ event }) => event === "doubted");
}

function lostBytes(proxy: TcpProxy): number {
  const { requests, replies } = proxy.counts();
  return requests.droppedBytes + replies.droppedBytes;
}

interface LinkFault extends Pick<Fault, "what" | "effect"> {
  begin(): void;
  /** What shows from outside that it had an effect; false: nothing. */
  evidence(): string | false;
}

/** The holder loses the lease to the fault, the second gets it, and after the fault the first gets it again. */
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
  if (shown !== false) trial.history.note({ event: "bit", what, evidence: shown });
  trial.history.note({ event: "healed", what });
  await proxy.heal();
  await second.acts(trial, 20);
  await second.release(trial);
  const again = await first.granted(trial, next.token);
  expect(again.token).toBeGreaterThan(next.token);
  await first.acts(trial, 20);
  await first.release(trial);
  expectSound(trial, usually(engine, { grantsMin: 3 }));
}
