// Goal: no failure of a callback ends a candidacy silently, and followers see every leader and
// every vacancy. Method: as in election.test.ts.
import { describe, expect, test } from "vitest";
import { candidate, leadUntilStopped } from "../../test/support/holder/election-world.ts";
import { flush, Gate, makeWorld } from "../../test/support/holder/holder-world.ts";
import type { ElectionOptions, Lead } from "./election.ts";

describe("callbacks that fail", () => {
  test("a candidate whose prepare fails does not campaign and retries with a growing pause", async () => {
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
    expect(one.eventTypes()).toEqual([
      "prepareFailed",
      "prepareFailed",
      "prepareFailed",
      "campaigning",
      "elected",
    ]);
    const waits = one.events.flatMap((event) => ("retryInMs" in event ? [event.retryInMs] : []));
    expect(waits).toEqual([...waits].sort((a, b) => a - b));
  });

  test("stop() ends during a prepare that hangs, whose signal aborts", async () => {
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

  test("the signal of prepare aborts only after the term has ended", async () => {
    const world = makeWorld();
    let given: AbortSignal | undefined;
    const prepare = (signal: AbortSignal): void => {
      given = signal;
    };
    const gate = new Gate();
    const lead: Lead = async (lease, stopping) => {
      await leadUntilStopped(lease, stopping);
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

  test("a candidate whose lead throws lets another lead and campaigns again later", async () => {
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

  test("failures become warnings without onEvent, and if it throws", async () => {
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

  test("a lead that repeatedly returns at once causes one warning that says what to do", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one", { lead: () => undefined });
    one.election.start();
    await world.clock.advance(450);
    expect(one.eventTypes().filter((type) => type === "resigned")).toHaveLength(3);
    expect(one.warnings).toEqual([
      expect.stringMatching(
        /"leader": lead returned .* 3 times in a row.*`stopping`.*campaignAgain/,
      ),
    ]);
    await world.clock.advance(20_000);
    expect(one.warnings).toHaveLength(1);
  });

  test("a lead that works for a while, or leads only once, causes no warning", async () => {
    const world = makeWorld();
    const lead: Lead = () => new Promise<void>((end) => void world.clock.setTimer(end, 1_000));
    const one = await candidate(world, "one", { lead });
    one.election.start();
    await world.clock.advance(20_000);
    expect(one.eventTypes().filter((type) => type === "resigned").length).toBeGreaterThan(5);
    const two = await candidate(world, "two", { lead: () => undefined, campaignAgain: false });
    two.election.start();
    const stopped = one.election.stop();
    await world.clock.advance(20_000);
    await stopped;
    expect(two.eventTypes()).toContain("resigned");
    expect([...one.warnings, ...two.warnings]).toEqual([]);
  });

  test("an unavailable store is reported and retried", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    let refusals = 2;
    one.store.hooks.grant = (_, forward) => {
      refusals -= 1;
      return refusals >= 0 ? Promise.reject(new Error("odd")) : forward();
    };
    one.election.start();
    await world.clock.advance(2_000);
    expect(one.eventTypes()).toEqual([
      "campaignFailed",
      "campaignFailed",
      "campaigning",
      "elected",
    ]);
  });
});

describe("observing", () => {
  test("begins with the present leader or undefined, then yields every change", async () => {
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
    expect(first).toEqual({ term: 1n, holderId: "one", value: "a", heldForMs: 0 });
    expect(second).toEqual({ term: 2n, holderId: "two", value: "b", heldForMs: 0 });
    expect(seen.at(-1)).toBeUndefined();
    stop.abort();
    await watching;
    const late = election.observe();
    one.store.unhook();
    expect((await late.next()).value).toBeUndefined();
    await late.return();
  });

  test("a late observer begins with the present leader", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one");
    one.election.start();
    await flush();
    const views = one.election.observe();
    expect((await views.next()).value).toMatchObject({ holderId: "one" });
    await views.return();
  });
});

describe("invalid input", () => {
  test("is rejected with what to change", async () => {
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
