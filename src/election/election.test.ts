// Goal: a candidate gets ready before it queues, leads under the lease, is told to stop, and comes back; nothing that a
// callback does ends the race in silence. Method: several processes on one memory backend, on a manual clock.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  type Member,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
  TIMING,
  type World,
} from "../../test/support/holder-world.ts";
import type { Election, ElectionOptions } from "./election.ts";
import type { ElectionEvent } from "./events.ts";
import type { Lead } from "./reign.ts";

/** Leads until it is asked to stop. */
const untilAsked: Lead = (_, stopping) =>
  new Promise<void>((resolve) => {
    if (stopping.aborted) resolve();
    stopping.addEventListener("abort", () => resolve(), { once: true });
  });

interface Candidate extends Member {
  readonly election: Election;
  readonly events: ElectionEvent[];
  readonly told: () => string[];
}

async function candidate(
  world: World,
  holderId: string,
  options: Partial<ElectionOptions> = {},
): Promise<Candidate> {
  const member = await world.join(holderId);
  const events: ElectionEvent[] = [];
  const onEvent = (event: ElectionEvent): void => void events.push(event);
  const election = member.tenure.election("leader", { lead: untilAsked, onEvent, ...options });
  return { ...member, election, events, told: () => events.map(({ type }) => type) };
}

describe("the walk", () => {
  test("prepares, campaigns, leads with the lease's token as term, and hands over", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one", { value: { at: "10.0.0.1" } });
    const two = await candidate(world, "two", { value: { at: "10.0.0.2" } });
    expect(one.election.state).toBe("idle");
    one.election.start();
    await flush();
    two.election.start();
    await flush();
    expect([one.election.state, two.election.state]).toEqual(["leading", "campaigning"]);
    expect([one.election.term, two.election.term]).toEqual([1n, undefined]);
    const read = await two.election.leader();
    expect(read.leader).toEqual({ term: 1n, holderId: "one", value: { at: "10.0.0.1" } });
    expect(read.evidence.consistency).toBe("linearizable");
    const resigned = await one.election.resign();
    expect(resigned).toMatchObject({
      resigned: true,
      release: "released",
      successor: { holderId: "two", token: 2n },
    });
    await flush();
    expect([one.election.state, two.election.state]).toEqual(["campaigning", "leading"]);
    expect(one.told()).toEqual(["campaigning", "elected", "resigned", "campaigning"]);
  });

  test("the gap of a takeover is the acquisition: every candidate is ready before", async () => {
    const world = makeWorld();
    const order: string[] = [];
    const ready = (name: string) => ({
      prepare: () => void order.push(`${name} prepares`),
      lead: ((lease, stopping) => {
        order.push(`${name} leads`);
        return untilAsked(lease, stopping);
      }) as Lead,
    });
    const one = await candidate(world, "one", ready("one"));
    const two = await candidate(world, "two", ready("two"));
    one.election.start();
    await flush();
    two.election.start();
    await flush();
    await one.election.resign();
    await flush();
    expect(order).toEqual([
      "one prepares",
      "one leads",
      "two prepares",
      "two leads",
      "one prepares",
    ]);
  });

  test("what lead returns resigns, and with campaignAgain: false that is all", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one", { lead: () => undefined, campaignAgain: false });
    one.election.start();
    await flush();
    expect(one.told()).toEqual(["campaigning", "elected", "resigned", "stopped"]);
    expect(one.election.state).toBe("stopped");
    expect((await one.election.leader()).leader).toBeUndefined();
    expect(() => one.election.start()).toThrow(/is closed/);
  });

  test("start() again changes nothing, and an election without a term cannot resign", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    expect(await one.election.resign()).toEqual({ resigned: false });
    one.election.start().start();
    await flush();
    expect(one.told()).toEqual(["campaigning", "elected"]);
  });
});

describe("loss", () => {
  test("S6: lead is told by both signals before another can lead, and the candidate comes back", async () => {
    const world = makeWorld();
    const told: string[] = [];
    const lead: Lead = async (lease, stopping) => {
      stopping.addEventListener("abort", () => told.push(`stopping at ${world.clock.now()}`));
      lease.signal.addEventListener("abort", () => told.push(`lost at ${world.clock.now()}`));
      await untilAsked(lease, stopping);
    };
    const one = await candidate(world, "one", { lead });
    one.election.start();
    await flush();
    const begun = world.clock.now();
    one.store.hookAll(down);
    await world.clock.advance(SAFE_MS - 1);
    expect(told).toEqual([]);
    await world.clock.advance(1);
    const at = begun + SAFE_MS;
    expect(told.sort()).toEqual([`lost at ${at}`, `stopping at ${at}`]);
    expect(one.events.find(({ type }) => type === "lost")).toMatchObject({ reason: "expired" });
    one.store.unhook();
    await world.clock.advance(20_000);
    expect(one.election.state).toBe("leading");
    expect(one.election.term).toBe(2n);
  });

  test("revoked: told as such", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one", { campaignAgain: false });
    one.election.start();
    await flush();
    const other = await world.join("other");
    await other.tenure.revoke("leader");
    await world.clock.advance(RENEW_EVERY_MS);
    expect(one.events.find(({ type }) => type === "lost")).toMatchObject({ reason: "revoked" });
    expect(one.election.state).toBe("stopped");
  });

  test("a lead that outlives its lease is reported when another may lead, and keeps its candidate out of the race", async () => {
    const world = makeWorld();
    const gate = new Gate();
    const one = await candidate(world, "one", { lead: () => gate.opened });
    one.election.start();
    await flush();
    one.store.hookAll(down);
    await world.clock.advance(SAFE_MS);
    expect(one.told()).not.toContain("overran");
    await world.clock.advance(TIMING.ttlMs - SAFE_MS);
    expect(one.told()).toContain("overran");
    one.store.unhook();
    await world.clock.advance(60_000);
    expect(one.told().filter((type) => type === "elected")).toHaveLength(1);
    gate.open();
    await flush();
    expect(one.events.find(({ type }) => type === "settled")).toMatchObject({ lateMs: 60_000 });
    expect(one.election.state).toBe("leading");
  });
});

describe("resigning", () => {
  test("S6: the lease is held until lead has finished, and no new work begins meanwhile", async () => {
    const world = makeWorld();
    const gate = new Gate();
    const refused: unknown[] = [];
    const lead: Lead = async (lease, stopping) => {
      await untilAsked(lease, stopping);
      refused.push(await outcome(lease.run(() => "more")));
      lease.check();
      await gate.opened;
    };
    const one = await candidate(world, "one", { lead });
    const two = await candidate(world, "two");
    one.election.start();
    await flush();
    two.election.start();
    await flush();
    const resigning = one.election.resign({ drainMs: Number.POSITIVE_INFINITY });
    await world.clock.advance(30_000);
    expect(two.election.state).toBe("campaigning");
    expect(refused).toMatchObject([{ error: { code: "DRAINING" } }]);
    gate.open();
    expect(await resigning).toMatchObject({ release: "released", successor: { holderId: "two" } });
  });

  test("a lead that ignores the wish loses the lease at the limit; resign() and stop() do not hang", async () => {
    const world = makeWorld();
    const gate = new Gate();
    const one = await candidate(world, "one", { lead: () => gate.opened });
    one.election.start();
    await flush();
    const stopping = one.election.stop({ drainMs: 1_000 });
    await world.clock.advance(1_000 + SAFE_MS);
    expect(await outcome(stopping)).toMatchObject({
      value: { resigned: true, release: "overrun" },
    });
    expect(one.election.state).toBe("stopped");
    await world.clock.advance(TIMING.ttlMs);
    expect(one.told()).toContain("overran");
    gate.open();
  });

  test("tells when nobody took over in time, and then leads on by itself", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    one.election.start();
    await flush();
    const resigning = one.election.resign({ waitMs: 2_000 });
    await world.clock.advance(1_999);
    expect(one.election.state).toBe("leading");
    await world.clock.advance(1);
    expect(await resigning).toMatchObject({ resigned: true, waitedMs: 2_000 });
    expect((await resigning) as object).not.toHaveProperty("successor.holderId");
    await flush();
    expect(one.election.term).toBe(2n);
  });

  test("close() resigns, and leaves nothing behind: the next one leads at once", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    const two = await candidate(world, "two");
    one.election.start();
    await flush();
    two.election.start();
    await flush();
    await one.tenure.close();
    await flush();
    expect(two.election.state).toBe("leading");
    expect(one.election.state).toBe("stopped");
    await two.tenure.close();
    expect(world.clock.timers).toBe(0);
  });

  test("stop() in the queue leaves it, so that nobody waits for the dead", async () => {
    const world = makeWorld();
    const [one, two, three] = [
      await candidate(world, "one"),
      await candidate(world, "two"),
      await candidate(world, "three"),
    ];
    for (const { election } of [one, two, three]) {
      election.start();
      await flush();
    }
    expect(await two.election.stop()).toEqual({ resigned: false });
    await one.election.stop();
    await flush();
    expect(three.election.state).toBe("leading");
  });
});

describe("callbacks that fail", () => {
  test("a candidate that is not ready does not campaign; it is tried again, later and later", async () => {
    const world = makeWorld();
    let tries = 0;
    const prepare = (): void => {
      tries += 1;
      if (tries < 4) throw new Error("cold");
    };
    const one = await candidate(world, "one", { prepare });
    one.election.start();
    await flush();
    expect(one.store.calls.grant).toBe(0);
    expect(one.election.state).toBe("preparing");
    await world.clock.advance(5_000);
    expect(one.told()).toEqual([
      "prepareFailed",
      "prepareFailed",
      "prepareFailed",
      "campaigning",
      "elected",
    ]);
    const waits = one.events.flatMap((event) => ("retryInMs" in event ? [event.retryInMs] : []));
    expect(waits).toEqual([...waits].sort((a, b) => a - b));
  });

  test("a prepare that hangs does not keep stop() from ending, and is told by its signal", async () => {
    const world = makeWorld();
    let given: AbortSignal | undefined;
    const prepare = (signal: AbortSignal): Promise<void> => {
      given = signal;
      return new Promise(() => undefined);
    };
    const one = await candidate(world, "one", { prepare });
    one.election.start();
    await flush();
    expect(await one.election.stop()).toEqual({ resigned: false });
    expect(given?.aborted).toBe(true);
  });

  test("what was prepared lives as long as the reign", async () => {
    const world = makeWorld();
    let given: AbortSignal | undefined;
    const prepare = (signal: AbortSignal): void => {
      given = signal;
    };
    const gate = new Gate();
    const lead: Lead = async (lease, stopping) => {
      await untilAsked(lease, stopping);
      await gate.opened;
    };
    const one = await candidate(world, "one", { prepare, lead });
    one.election.start();
    await flush();
    const stopping = one.election.stop();
    await flush();
    expect(given?.aborted).toBe(false);
    gate.open();
    await stopping;
    expect(given?.aborted).toBe(true);
  });

  test("a lead that throws gives up, lets another lead, and campaigns again later", async () => {
    const world = makeWorld();
    const error = new Error("cannot lead");
    const one = await candidate(world, "one", { lead: () => Promise.reject(error) });
    const two = await candidate(world, "two");
    one.election.start();
    await flush();
    two.election.start();
    await flush();
    expect(two.election.state).toBe("leading");
    expect(one.events.find(({ type }) => type === "leadFailed")).toMatchObject({ term: 1n, error });
    await world.clock.advance(20_000);
    expect(one.election.state).toBe("campaigning");
  });

  test("without onEvent, and when it throws, failures become warnings", async () => {
    const world = makeWorld();
    const quiet = await candidate(world, "quiet", {
      onEvent: undefined,
      prepare: () => Promise.reject(new Error("cold")),
    });
    quiet.election.start();
    const loud = await candidate(world, "loud", {
      onEvent: () => {
        throw new Error("no log");
      },
    });
    loud.election.start();
    await flush();
    expect(quiet.warnings).toEqual([expect.stringContaining("prepare failed")]);
    expect(loud.warnings).toEqual([
      expect.stringContaining("onEvent"),
      expect.stringContaining("onEvent"),
    ]);
    expect(loud.election.state).toBe("leading");
  });

  test("a store that cannot be used for now is told and tried again", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    let refusals = 2;
    one.store.hooks.grant = (_, forward) => {
      refusals -= 1;
      return refusals >= 0 ? Promise.reject(new Error("odd")) : forward();
    };
    one.election.start();
    await world.clock.advance(2_000);
    expect(one.told()).toEqual(["campaigning", "campaignFailed", "campaignFailed", "elected"]);
  });
});

describe("observing", () => {
  test("begins with the present leader or with nobody, then tells every change", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one", { value: "a" });
    const two = await candidate(world, "two", { value: "b" });
    const watcher = await world.join("watcher");
    await watcher.tenure.acquire("leader/else");
    const election = watcher.tenure.election("leader", { lead: () => undefined });
    const seen: unknown[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const leader of election.observe({ signal: stop.signal })) seen.push(leader);
    })();
    await flush();
    expect(seen).toEqual([undefined]);
    one.election.start();
    await flush();
    two.election.start();
    await flush();
    await one.election.stop();
    await flush();
    await two.election.stop();
    await flush();
    const [first, second] = [seen[1], seen.findLast((leader) => leader !== undefined)];
    expect(first).toEqual({ term: 1n, holderId: "one", value: "a" });
    expect(second).toEqual({ term: 2n, holderId: "two", value: "b" });
    expect(seen.at(-1)).toBeUndefined();
    stop.abort();
    await watching;
    const late = election.observe();
    one.store.unhook();
    expect((await late.next()).value).toBeUndefined();
    await late.return();
  });

  test("a late observer begins with who leads, not with nobody", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    one.election.start();
    await flush();
    const views = one.election.observe();
    expect((await views.next()).value).toMatchObject({ holderId: "one" });
    await views.return();
  });
});

describe("bad input", () => {
  test("says what to change", async () => {
    const world = makeWorld();
    const { tenure } = await world.join("one");
    const lead = (): void => undefined;
    const bad: [unknown, RegExp][] = [
      [undefined, /needs `lead`/],
      [{}, /needs `lead`/],
      [{ lead, prepare: 1 }, /`prepare` of an election must be a function/],
      [{ lead, onEvent: "log" }, /`onEvent` of an election must be a function/],
      [{ lead, ttlMs: -1 }, /ttlMs/],
      [{ lead, value: 1n }, /JSON/],
    ];
    for (const [options, message] of bad)
      expect(() => tenure.election("leader", options as ElectionOptions)).toThrow(message);
    expect(() => tenure.election("", { lead })).toThrow(/resource/i);
    const election = tenure.election("leader", { lead });
    await expect(election.resign({ waitMs: -1 })).rejects.toThrow(/waitMs/);
    await expect(election.stop({ drainMs: Number.NaN })).rejects.toThrow(/drainMs/);
  });
});
