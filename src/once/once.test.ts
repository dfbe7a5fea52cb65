// Goal: a scheduled time runs once, whenever machines call; it is remembered for its window and
// delays no later time; and nothing runs if the store gives no answer. Method: several processes on
// one memory backend, on a manual clock, with a store that loses answers.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  hang,
  loseReply,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  TIMING,
  writeRecord,
} from "../../test/support/holder/holder-world.ts";
import type { OnceOptions } from "./once.ts";

const WINDOW_MS = 30_000;

describe("a scheduled time", () => {
  test("runs on the first machine that calls, and on no other within its window, even after the work has ended", async () => {
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

  test("runs once if all machines call together, and the others do not wait for the work", async () => {
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

  test("does not run later than half of its window by the machine's own clock", async () => {
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

  test("does not run on a machine that became late while it wrote the marker", async () => {
    const world = makeWorld();
    const { tenure, store } = await world.join("one");
    const other = await world.join("two");
    const atMs = world.clock.wallNow();
    store.hooks.openSession = async ({ ttlMs }, forward) => {
      // Only the session of the marker is that long. The machine stalls here while its lease is
      // renewed.
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
    // No marker remains, so a machine that is in time by its own clock may run it.
    expect((await other.tenure.read("job@once")).holder).toBeUndefined();
  });

  test("is not delayed by the marker of an earlier time, however close", async () => {
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

  test("waits for the earlier run without losing its queue entry", async () => {
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
    // After several polls of the markers.
    await world.clock.advance(800);
    expect(two.store.calls).toMatchObject({ grant: 2, withdraw: 0 });
    expect(two.store.calls.read).toBeGreaterThan(4);
    gate.open();
    await world.clock.advance(50);
    expect(await running).toMatchObject({ ran: true, token: 1n });
    expect(await second).toMatchObject({ ran: true, value: "two", token: 2n });
    await (await third).release();
  });

  test("stops waiting when another machine has begun it or waitMs has passed, and leaves the queue", async () => {
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
    // Another machine has written the marker and still holds the key.
    const marker = await writeRecord(world, one, "job@once", { atMs: begin });
    await world.clock.advance(110);
    expect(await outcome(second)).toEqual({ value: { ran: false, reason: "taken", by: "one" } });
    await marker.end();
    // The marker comes after the last poll. The markers are read once more when the wait ends.
    const third = two.tenure.once("job", options, never);
    await world.clock.advance(900);
    const late = await writeRecord(world, one, "job@once", { atMs: begin });
    await world.clock.advance(110);
    expect(await outcome(third)).toEqual({ value: { ran: false, reason: "taken", by: "one" } });
    await late.end();
    await held.release();
    expect(await two.tenure.tryAcquire("job")).toBeDefined();
  });

  test("runs even if the notification is lost, because the next renewal reports the grant", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    two.store.losesEvents = true;
    const held = await one.tenure.acquire("job");
    const atMs = world.clock.wallNow();
    const waits = two.tenure.once("job", { atMs, waitMs: 5_000 }, () => "two");
    await world.clock.advance(200);
    await held.release();
    await world.clock.advance(RENEW_EVERY_MS - 201);
    expect(await outcome(waits)).toBe("pending");
    await world.clock.advance(50);
    expect(await waits).toMatchObject({ ran: true, value: "two" });
  });

  test("rejects with the error of a failed poll, and leaves the queue", async () => {
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

  test("does not run if it is older than a remembered one, even while markers are being replaced", async () => {
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
  test("runs once, and again after nine tenths of the period", async () => {
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

describe("failures", () => {
  test("an error of the work is rethrown unchanged, and the time stays taken", async () => {
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

  test("after a machine dies in the middle of a run, that time does not run again and the next one does", async () => {
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

  test("close() lets the work finish, frees the key and leaves the time taken", async () => {
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

  test("close() while the marker is being written starts no work and removes the marker", async () => {
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

  test("a DrainingError of the work itself is rethrown", async () => {
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

  test("S7: a lost answer about the marker is retried and causes neither a second run nor none", async () => {
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

  test("S7: if the marker cannot be confirmed no work runs, and the next machine may run it", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    one.store.hooks.grant = ({ resource }, forward) =>
      resource === "job" ? forward() : loseReply(forward);
    const failing = one.tenure.once("job", { atMs }, () => expect.unreachable());
    expect(await outcome(failing)).toMatchObject({ error: { code: "STORE_UNAVAILABLE" } });
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ ran: true });
  });

  test("S6: a lease in doubt before the work begins starts no work and removes the marker", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const atMs = world.clock.wallNow();
    one.store.hooks.renew = down;
    one.store.hooks.grant = async ({ resource }, forward) => {
      const answer = await forward();
      // A renewal is due, and fails.
      if (resource !== "job") await world.clock.advance(200);
      return answer;
    };
    const options = { atMs, renewEveryMs: 100 };
    const failing = one.tenure.once("job", options, () => expect.unreachable());
    await expect(failing).rejects.toMatchObject({ code: "LEASE_IN_DOUBT" });
    expect(await two.tenure.once("job", { atMs }, () => 2)).toMatchObject({ ran: true });
  });

  test("a process drops the session of a marker when its window has passed", async () => {
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
