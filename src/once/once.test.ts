// Goal: a fire is run once, whoever comes when; it is remembered for its window and no later fire is kept out; and nothing
// is run on a guess. Method: several processes on one memory backend, on a manual clock, with a store that loses answers.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  hang,
  loseReply,
  makeWorld,
  outcome,
  TIMING,
  writeRecord,
} from "../../test/support/holder/holder-world.ts";
import { orAborted } from "../async/signals.ts";
import type { OnceOptions } from "./once.ts";

const WINDOW_MS = 30_000;

describe("a fire", () => {
  test("is run by the first that comes, and by nobody later in its window although the work is long over", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    const ran = await one.tenure.once("job", { atMs }, (lease) => `by ${lease.resource}`);
    expect(ran).toEqual({ ran: true, value: "by job", token: 1n });
    expect((await one.tenure.read("job")).holder).toBeUndefined();
    await world.clock.advance(300);
    const never = (): never => expect.unreachable();
    const taken = { ran: false, reason: "taken", by: "one" };
    expect(await two.tenure.once("job", { atMs }, never)).toEqual(taken);
    await world.clock.advance(WINDOW_MS / 2 - 301);
    expect(await two.tenure.once("job", { atMs }, never)).toEqual(taken);
    expect(await one.tenure.once("job", { atMs }, never)).toEqual(taken);
  });

  test("is run once when all come together, and the losers do not wait for the work", async () => {
    const world = makeWorld();
    const atMs = world.clock.wallNow();
    const gate = new Gate();
    const runs: string[] = [];
    const names = ["one", "two", "three", "four"];
    const results: unknown[] = [];
    for (const name of names) {
      const { tenure } = await world.join(name);
      const work = async (): Promise<void> => {
        runs.push(name);
        await gate.opened;
      };
      void tenure.once("job", { atMs }, work).then((result) => results.push(result));
    }
    await world.clock.advance(200);
    expect(runs).toHaveLength(1);
    expect(results).toEqual(Array(3).fill({ ran: false, reason: "taken", by: runs[0] }));
    gate.open();
    await flush();
    expect(results.at(-1)).toMatchObject({ ran: true });
  });

  test("later than half of its window, by the machine's own clock, it is not run at all", async () => {
    const world = makeWorld();
    const { tenure, store } = await world.join("one");
    const atMs = world.clock.wallNow();
    await world.clock.advance(WINDOW_MS / 2 + 1);
    const late = { ran: false, reason: "late" };
    expect(await tenure.once("job", { atMs }, () => expect.unreachable())).toEqual(late);
    expect(store.calls.grant).toBe(0);
    expect(await tenure.once("job", { atMs: atMs + 1 }, () => "in time")).toMatchObject({
      ran: true,
    });
  });

  test("a machine that became late while it asked does not run what another may have run and forgotten", async () => {
    const world = makeWorld();
    const { tenure, store } = await world.join("one");
    const other = await world.join("two");
    const atMs = world.clock.wallNow();
    store.hooks.openSession = async ({ ttlMs }, forward) => {
      // Only the mark's session is that long: the machine sleeps here while its lease is renewed.
      if (ttlMs === WINDOW_MS) await world.clock.advance(WINDOW_MS / 2 + 1);
      return forward();
    };
    store.hooks.renew = (_, forward) => forward();
    const options = {
      atMs,
      ttlMs: 60_000,
      roundTripMs: 18_000,
      clockErrorMs: 100,
      renewEveryMs: 100,
    };
    const result = await tenure.once("job", options, () => expect.unreachable());
    expect(result).toEqual({ ran: false, reason: "late" });
    // It kept nothing: whoever is in time by its own clock may run it.
    expect((await other.tenure.read("job@once")).holder).toBeUndefined();
  });

  test("the next fire is never kept waiting by the memory of the last, however close", async () => {
    const world = makeWorld();
    const members = [await world.join("one"), await world.join("two")];
    const begin = world.clock.wallNow();
    for (let second = 0; second < 40; second += 1) {
      const atMs = begin + second * 1_000;
      const results = [];
      for (const { tenure } of members)
        results.push(await tenure.once("job", { atMs }, () => second));
      expect(results).toMatchObject([{ ran: true, value: second }, { reason: "taken" }]);
      await world.clock.advance(1_000);
    }
  });

  test("waits for the run before it without losing its place in line", async () => {
    const world = makeWorld();
    const [one, two, three] = [
      await world.join("one"),
      await world.join("two"),
      await world.join("three"),
    ];
    const begin = world.clock.wallNow();
    const gate = new Gate();
    const running = one.tenure.once("job", { atMs: begin }, () => gate.opened);
    await world.clock.advance(10);
    const second = two.tenure.once("job", { atMs: begin + 1 }, () => "two");
    await world.clock.advance(10);
    const third = three.tenure.acquire("job");
    // Several looks at the marks later.
    await world.clock.advance(800);
    expect(two.store.calls).toMatchObject({ grant: 2, untilFree: 1, withdraw: 0 });
    expect(two.store.calls.read).toBeGreaterThan(4);
    gate.open();
    await world.clock.advance(50);
    expect(await running).toMatchObject({ ran: true, token: 1n });
    expect(await second).toMatchObject({ ran: true, value: "two", token: 2n });
    await (await third).release();
  });

  test("is not waited for any more when another has run it, nor longer than asked, and the place in line is left", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const begin = world.clock.wallNow();
    const held = await one.tenure.acquire("job");
    const never = (): never => expect.unreachable();
    const options = { atMs: begin, waitMs: 1_000 };
    const first = two.tenure.once("job", options, never);
    await world.clock.advance(999);
    expect(await outcome(first)).toBe("pending");
    await world.clock.advance(2);
    expect(await outcome(first)).toEqual({ value: { ran: false, reason: "running", by: "one" } });
    const second = two.tenure.once("job", options, never);
    await world.clock.advance(60);
    // Another has made the mark and holds the key on.
    const marker = await writeRecord(world, one, "job@once", { atMs: begin });
    await world.clock.advance(110);
    expect(await outcome(second)).toEqual({ value: { ran: false, reason: "taken", by: "one" } });
    await marker.end();
    // Behind the last look while it waited: it is looked once more when the time is over.
    const third = two.tenure.once("job", options, never);
    await world.clock.advance(900);
    const late = await writeRecord(world, one, "job@once", { atMs: begin });
    await world.clock.advance(110);
    expect(await outcome(third)).toEqual({ value: { ran: false, reason: "taken", by: "one" } });
    await late.end();
    await held.release();
    expect(await two.tenure.tryAcquire("job")).toBeDefined();
  });

  test("is run also where nobody was woken: whoever has waited in vain asks a last time", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    two.store.hooks.untilFree = ({ signal }) => orAborted(new Promise(() => undefined), signal);
    const held = await one.tenure.acquire("job");
    const atMs = world.clock.wallNow();
    const waits = two.tenure.once("job", { atMs, waitMs: 1_000 }, () => "two");
    await world.clock.advance(200);
    await held.release();
    await world.clock.advance(750);
    expect(await outcome(waits)).toBe("pending");
    await world.clock.advance(100);
    expect(await waits).toMatchObject({ ran: true, value: "two" });
  });

  test("a look that fails ends the wait with its error, and the place in line is left", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const held = await one.tenure.acquire("job");
    let reads = 0;
    two.store.hooks.read = (_, forward) => {
      reads += 1;
      return reads > 2 ? down() : forward();
    };
    const atMs = world.clock.wallNow();
    const failed = two.tenure.once("job", { atMs }, () => expect.unreachable());
    failed.catch(() => undefined);
    await world.clock.advance(100);
    expect(await outcome(failed)).toMatchObject({ error: { code: "STORE_UNAVAILABLE" } });
    expect(two.store.calls.withdraw).toBe(1);
    await held.release();
    expect(await one.tenure.tryAcquire("job")).toBeDefined();
  });

  test("that is older than one remembered is not run: also while marks are being replaced", async () => {
    const world = makeWorld();
    const one = await world.join("one");
    const two = await world.join("two");
    const begin = world.clock.wallNow();
    const fire = (number: number): OnceOptions => ({ atMs: begin + number * 1_000 });
    for (const number of [1, 2]) await one.tenure.once("job", fire(number), () => number);
    const during: unknown[] = [];
    const marks = ["job@once", "job@once+"];
    one.store.hooks.revoke = async (_, forward) => {
      const answer = await forward();
      const reads = await Promise.all(marks.map((mark) => two.tenure.read(mark)));
      during.push(reads.map(({ holder }) => holder?.value));
      return answer;
    };
    expect(await one.tenure.once("job", fire(3), () => 3)).toMatchObject({ ran: true });
    expect(during).toEqual([[undefined, { atMs: begin + 2_000 }]]);
    for (const number of [1, 2, 3])
      expect(await two.tenure.once("job", fire(number), () => number)).toMatchObject({
        reason: "taken",
      });
  });
});

describe("oncePer", () => {
  test("has one run; the next comes when nine tenths of it are over", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const options = { everyMs: 10_000 };
    expect(await one.tenure.oncePer("job", options, () => 1)).toMatchObject({ ran: true });
    await world.clock.advance(8_999);
    expect(await two.tenure.oncePer("job", options, () => 2)).toMatchObject({ reason: "taken" });
    await world.clock.advance(1);
    expect(await two.tenure.oncePer("job", options, () => 2)).toMatchObject({
      ran: true,
      value: 2,
    });
  });
});

describe("what goes wrong", () => {
  test("the work's error comes back unchanged, and the fire stays taken", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    const error = new Error("no disk");
    const failing = one.tenure.once("job", { atMs }, () => Promise.reject(error));
    expect(await outcome(failing)).toEqual({ error });
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ reason: "taken" });
    const next = { atMs: atMs + 1_000 };
    expect(await two.tenure.once("job", next, () => 2)).toMatchObject({ ran: true });
  });

  test("a machine that dies in the middle has had the fire: nobody runs it again, the next one is run", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    void one.tenure.once("job", { atMs }, () => new Promise(() => undefined));
    await flush();
    one.store.hookAll(hang);
    const next = { atMs: atMs + 1_000 };
    await world.clock.advance(1_000);
    const early = two.tenure.once("job", next, () => 2);
    await world.clock.advance(1_000);
    expect(await outcome(early)).toEqual({
      value: { ran: false, reason: "running", by: "one" },
    });
    await world.clock.advance(TIMING.ttlMs);
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ reason: "taken" });
    expect(await two.tenure.once("job", next, () => 2)).toMatchObject({ ran: true });
  });

  test("close() lets the work finish, frees the key and leaves the fire taken", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    const gate = new Gate();
    const running = one.tenure.once("job", { atMs }, () => gate.opened);
    await flush();
    const closing = one.tenure.close();
    await flush();
    gate.open();
    await closing;
    expect(await running).toMatchObject({ ran: true });
    expect((await two.tenure.read("job")).holder).toBeUndefined();
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ reason: "taken" });
  });

  test("close() while a fire is being claimed starts nothing, and gives the fire back", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    const gate = new Gate();
    one.store.hooks.grant = async ({ resource }, forward) => {
      const answer = await forward();
      if (resource !== "job") await gate.opened;
      return answer;
    };
    const skipped = one.tenure.once("job", { atMs }, () => expect.unreachable());
    await flush();
    const closing = one.tenure.close();
    await flush();
    gate.open();
    expect(await skipped).toEqual({ ran: false, reason: "closing" });
    await closing;
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ ran: true });
  });

  test("what the work itself could not do because of close() is its caller's to know", async () => {
    const world = makeWorld();
    const { tenure } = await world.join("one");
    const atMs = world.clock.wallNow();
    let closing: Promise<void> | undefined;
    const failing = tenure.once("job", { atMs }, async (lease) => {
      closing = tenure.close();
      await flush();
      await lease.run(() => expect.unreachable());
    });
    await expect(failing).rejects.toMatchObject({ code: "DRAINING" });
    await closing;
  });

  test("S7: a lost answer about the mark is asked for again, and does not become a second run or none", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    let losses = 1;
    one.store.hooks.grant = ({ resource }, forward) => {
      if (resource === "job" || losses === 0) return forward();
      losses -= 1;
      return loseReply(forward);
    };
    expect(await one.tenure.once("job", { atMs }, () => 1)).toMatchObject({ ran: true });
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ reason: "taken" });
  });

  test("S7: when the store cannot say whether the fire is marked nothing runs, and the next machine may", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    one.store.hooks.grant = ({ resource }, forward) =>
      resource === "job" ? forward() : loseReply(forward);
    const failing = one.tenure.once("job", { atMs }, () => expect.unreachable());
    expect(await outcome(failing)).toMatchObject({ error: { code: "STORE_UNAVAILABLE" } });
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ ran: true });
  });

  test("S6: a lease in doubt before the work begins starts nothing, and gives the fire back", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    one.store.hooks.renew = down;
    one.store.hooks.grant = async ({ resource }, forward) => {
      const answer = await forward();
      // A renewal falls due, and fails.
      if (resource !== "job") await world.clock.advance(200);
      return answer;
    };
    const options = { atMs, renewEveryMs: 100 };
    const failing = one.tenure.once("job", options, () => expect.unreachable());
    await expect(failing).rejects.toMatchObject({ code: "LEASE_IN_DOUBT" });
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ ran: true });
  });

  test("what a process keeps of a mark ends with its window", async () => {
    const world = makeWorld();
    const { tenure, store } = await world.join("one");
    const opened: string[] = [];
    const ended: string[] = [];
    store.hooks.openSession = ({ sessionId, ttlMs }, forward) => {
      if (ttlMs === WINDOW_MS) opened.push(sessionId);
      return forward();
    };
    store.hooks.endSession = ({ sessionId }, forward) => {
      ended.push(sessionId);
      return forward();
    };
    await tenure.once("job", { atMs: world.clock.wallNow() }, () => 1);
    expect([opened.length, ended]).toEqual([1, []]);
    await world.clock.advance(WINDOW_MS);
    expect(ended).toEqual(expect.arrayContaining(opened));
  });
});
