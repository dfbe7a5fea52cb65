// Goal: a candidate prepares before it queues, leads under the lease, is asked to stop, and
// campaigns again. Method: several processes on one memory backend, on a manual clock.
import { describe, expect, test } from "vitest";
import {
  type Candidate,
  candidate,
  leadUntilStopped,
} from "../../test/support/holder/election-world.ts";
import {
  down,
  flush,
  Gate,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
  TIMING,
} from "../../test/support/holder/holder-world.ts";
import { ClosedError } from "../core/errors.ts";
import type { Lead } from "./election.ts";
import type { ElectionEvent } from "./events.ts";

describe("the life of a candidate", () => {
  test("it prepares, campaigns, leads with the lease's token as term, and hands over", async () => {
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
    await world.clock.advance(700);
    const read = await two.election.leader();
    const value = { at: "10.0.0.1" };
    expect(read.leader).toEqual({ term: 1n, holderId: "one", value, heldForMs: 700 });
    expect(read.evidence.consistency).toBe("linearizable");
    const resigned = await one.election.resign();
    expect(resigned).toMatchObject({
      resigned: true,
      release: "released",
      successor: { holderId: "two", token: 2n },
    });
    await flush();
    expect([one.election.state, two.election.state]).toEqual(["campaigning", "leading"]);
    expect(one.eventTypes()).toEqual(["campaigning", "elected", "resigned", "campaigning"]);
  });

  test("a takeover costs only the acquisition, because every candidate has prepared before", async () => {
    const world = makeWorld();
    const order: string[] = [];
    const ready = (name: string) => ({
      prepare: () => void order.push(`${name} prepares`),
      lead: ((lease, stopping) => {
        order.push(`${name} leads`);
        return leadUntilStopped(lease, stopping);
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

  test("the candidate resigns when `lead` returns, and stops if `campaignAgain` is false", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one", { lead: () => undefined, campaignAgain: false });
    one.election.start();
    await flush();
    expect(one.eventTypes()).toEqual(["campaigning", "elected", "resigned", "stopped"]);
    expect(one.election.state).toBe("stopped");
    expect((await one.election.leader()).leader).toBeUndefined();
    expect(() => one.election.start()).toThrow(/is closed/);
  });

  test("a second start() has no effect, and a candidate without a term cannot resign", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    expect(await one.election.resign()).toEqual({ resigned: false });
    one.election.start().start();
    await flush();
    expect(one.eventTypes()).toEqual(["campaigning", "elected"]);
  });
});

describe("loss", () => {
  test("S6: both signals of lead abort before another can lead, and the candidate campaigns again", async () => {
    const world = makeWorld();
    const aborts: string[] = [];
    const lead: Lead = async (lease, stopping) => {
      stopping.addEventListener("abort", () => aborts.push(`stopping at ${world.clock.now()}`));
      lease.signal.addEventListener("abort", () => aborts.push(`lost at ${world.clock.now()}`));
      await leadUntilStopped(lease, stopping);
    };
    const one = await candidate(world, "one", { lead });
    one.election.start();
    await flush();
    const begun = world.clock.now();
    one.store.hookAll(down);
    await world.clock.advance(SAFE_MS - 1);
    expect(aborts).toEqual([]);
    await world.clock.advance(1);
    const at = begun + SAFE_MS;
    expect(aborts.sort()).toEqual([`lost at ${at}`, `stopping at ${at}`]);
    expect(one.events.find(({ type }) => type === "lost")).toMatchObject({ reason: "expired" });
    one.store.unhook();
    await world.clock.advance(20_000);
    expect(one.election.state).toBe("leading");
    expect(one.election.term).toBe(2n);
  });

  test("a revocation is reported as such", async () => {
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

  test("a lead that outlives its lease is reported when another may lead, and its candidate does not campaign", async () => {
    const world = makeWorld();
    const gate = new Gate();
    const one = await candidate(world, "one", { lead: () => gate.opened });
    one.election.start();
    await flush();
    one.store.hookAll(down);
    await world.clock.advance(SAFE_MS);
    expect(one.eventTypes()).not.toContain("overran");
    await world.clock.advance(TIMING.ttlMs - SAFE_MS);
    expect(one.eventTypes()).toContain("overran");
    one.store.unhook();
    await world.clock.advance(60_000);
    expect(one.eventTypes().filter((type) => type === "elected")).toHaveLength(1);
    gate.open();
    await flush();
    expect(one.events.find(({ type }) => type === "settled")).toMatchObject({ lateMs: 60_000 });
    expect(one.election.state).toBe("leading");
  });
});

describe("a lead that outlives a revoked lease", () => {
  test("is reported after the margin, because another candidate may lead at once", async () => {
    const world = makeWorld();
    const gate = new Gate();
    const one = await candidate(world, "one", { lead: () => gate.opened });
    one.election.start();
    await flush();
    const other = await world.join("other");
    await other.tenure.revoke("leader");
    await world.clock.advance(TIMING.ttlMs - SAFE_MS - 1);
    expect(one.eventTypes()).not.toContain("overran");
    await world.clock.advance(1);
    expect(one.eventTypes()).toContain("overran");
    gate.open();
  });
});

describe("resigning", () => {
  test("S6: the lease is held until lead has finished, and no new work begins until then", async () => {
    const world = makeWorld();
    const gate = new Gate();
    const refused: unknown[] = [];
    const lead: Lead = async (lease, stopping) => {
      await leadUntilStopped(lease, stopping);
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

  test("a lead that ignores `stopping` loses the lease at the limit; resign() and stop() do not hang", async () => {
    const world = makeWorld();
    const gate = new Gate();
    const one = await candidate(world, "one", { lead: () => gate.opened });
    one.election.start();
    await flush();
    const stopping = one.election.stop({ drainMs: 1_000 });
    await world.clock.advance(1_000 + TIMING.ttlMs - SAFE_MS);
    // Asked to stop, and still the holder.
    expect(one.eventTypes()).not.toContain("overran");
    await world.clock.advance(SAFE_MS);
    expect(await outcome(stopping)).toMatchObject({
      value: { resigned: true, release: "overrun" },
    });
    expect(one.election.state).toBe("stopped");
    await world.clock.advance(TIMING.ttlMs);
    expect(one.eventTypes()).toContain("overran");
    gate.open();
  });

  test("resign() reports that no successor came in time, and then the candidate leads again", async () => {
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

  test("close() resigns, and the next candidate leads immediately", async () => {
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

  test("start() on a closed Tenure throws, whether the election was made before or after close()", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    await one.tenure.close();
    expect(() => one.election.start()).toThrow(ClosedError);
    const events: ElectionEvent[] = [];
    const onEvent = (event: ElectionEvent): void => void events.push(event);
    const late = one.tenure.election("late", { lead: leadUntilStopped, onEvent });
    expect(() => late.start()).toThrow("This Tenure is closed.");
    await flush();
    expect([late.state, events]).toEqual(["idle", []]);
  });

  test("stop() at any step of a grant leaves no leader and no lease", async () => {
    let reigns = 0;
    for (let turns = 0; turns < 60; turns += 1) {
      const world = makeWorld();
      const one = await candidate(world, "one");
      let stopping: Promise<unknown> | undefined;
      one.store.hooks.grant = (_, forward) => {
        const granted = forward();
        void granted.then(async () => {
          for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
          stopping = one.election.stop();
        });
        return granted;
      };
      one.election.start();
      await flush();
      expect(await outcome(stopping as Promise<unknown>)).toHaveProperty("value");
      expect(one.election.state).toBe("stopped");
      expect((await one.election.leader()).leader).toBeUndefined();
      if (one.eventTypes().includes("elected")) reigns += 1;
    }
    // Some stops came before the term began, some after.
    expect(reigns).toBeGreaterThan(0);
    expect(reigns).toBeLessThan(60);
  });

  test("stop() in the queue removes the entry, so that no one waits for it", async () => {
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

describe("started elections of a Tenure", () => {
  /** Counts how often close() stops an election. */
  function countStops(election: Candidate["election"]): () => number {
    const stop = election.stop.bind(election);
    let stops = 0;
    election.stop = (options) => {
      stops += 1;
      return stop(options);
    };
    return () => stops;
  }

  test("an election that was stopped, or ended by itself, is not kept", async () => {
    const world = makeWorld();
    const stopped = await candidate(world, "stopped");
    stopped.election.start();
    await stopped.election.stop();
    const ended = await candidate(world, "ended", { lead: () => undefined, campaignAgain: false });
    ended.election.start();
    await flush();
    expect(ended.election.state).toBe("stopped");
    const counts = [stopped, ended].map(({ election }) => countStops(election));
    await Promise.all([stopped.tenure.close(), ended.tenure.close()]);
    expect(counts.map((count) => count())).toEqual([0, 0]);
  });

  test("an election that was never started is not kept, and cannot be started after close()", async () => {
    const world = makeWorld();
    const prepared: string[] = [];
    const one = await candidate(world, "one", { prepare: () => void prepared.push("one") });
    const count = countStops(one.election);
    await one.tenure.close();
    expect(count()).toBe(0);
    expect(() => one.election.start()).toThrow(expect.objectContaining({ code: "CLOSED" }));
    expect(prepared).toEqual([]);
  });

  test("close() stops an election that runs", async () => {
    const one = await candidate(makeWorld(), "one");
    const count = countStops(one.election.start());
    await flush();
    await one.tenure.close();
    expect(count()).toBe(1);
    expect(one.election.state).toBe("stopped");
  });
});
