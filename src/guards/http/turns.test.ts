// Goal: comparison and handler are one step in every order in which the guard can answer, and no
// request waits longer than this needs. Method: a guard whose answers the test delays, and a clock
// that the test moves.

import { expect, test } from "vitest";
import { ManualClock } from "../../testing/manual-clock.ts";
import type { Guard, TokenSource } from "../guard.ts";
import { memoryGuard } from "../memory/index.ts";
import { Turns } from "./turns.ts";

const source = (token: bigint) => ({ resource: "r", token });
const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const clock = new ManualClock();
const WAIT_MS = 10_000;

interface Entering {
  state: string;
  leave(): void;
  /** What the framework does when the client closes its connection. */
  hangUp(): void;
}

/** The state of an attempt to enter, as far as it is known now. */
function entering(turns: Turns, token: bigint): Entering {
  const seen = { state: "waiting", leave: (): void => undefined, hangUp: (): void => undefined };
  const onGone = (leave: () => void): void => {
    seen.hangUp = leave;
  };
  turns.enter(source(token), { waitMs: WAIT_MS, onGone }).then(
    (leave) => Object.assign(seen, { state: "in", leave }),
    (error: { code?: string; reason?: string }) =>
      Object.assign(seen, { state: error.code ?? error.reason ?? "failed" }),
  );
  return seen;
}

/** A guard that counts the calls of advance(), and that never answers for the token `silentFor`. */
function countingGuard(): Guard & { asked: number; silentFor: bigint | undefined } {
  const { advance, highest } = memoryGuard();
  const guard = {
    asked: 0,
    silentFor: undefined as bigint | undefined,
    highest,
    advance: async (given?: TokenSource): Promise<void> => {
      guard.asked += 1;
      if (given?.token === guard.silentFor) await new Promise(() => undefined);
      advance(given);
    },
  };
  return guard;
}

test("S2: a newer request waits for one that was admitted but whose answer has not arrived yet", async () => {
  const guard = memoryGuard();
  let answer = (): void => undefined;
  const late = {
    highest: guard.highest,
    advance: async (given?: { resource: string; token: bigint }) => {
      guard.advance(given);
      if (given?.token === 1n) await new Promise<void>((resolve) => (answer = resolve));
    },
  };
  const turns = new Turns(late, clock);
  const old = entering(turns, 1n);
  await soon();
  const fresh = entering(turns, 2n);
  await soon();
  expect([old.state, fresh.state]).toEqual(["waiting", "waiting"]);
  answer();
  await soon();
  expect([old.state, fresh.state]).toEqual(["in", "waiting"]);
  old.leave();
  await soon();
  expect(fresh.state).toBe("in");
});

test("S2: a request that waited is compared again, since another process may have admitted a newer token", async () => {
  const guard = memoryGuard();
  const turns = new Turns(guard, clock);
  const first = entering(turns, 1n);
  await soon();
  const second = entering(turns, 2n);
  await soon();
  expect([first.state, second.state]).toEqual(["in", "waiting"]);
  guard.advance(source(3n));
  first.leave();
  await soon();
  expect(second.state).toBe("STALE_TOKEN");
});

test("requests of one token run side by side, and resources are independent", async () => {
  const turns = new Turns(memoryGuard(), clock);
  const [one, two] = [entering(turns, 5n), entering(turns, 5n)];
  await soon();
  expect([one.state, two.state]).toEqual(["in", "in"]);
  const leave = await turns.enter(
    { resource: "other", token: 9n },
    { waitMs: WAIT_MS, onGone: () => undefined },
  );
  leave();
});

test("a newer request waits for the requests in progress, and not for stale ones that arrive later", async () => {
  const guard = countingGuard();
  const turns = new Turns(guard, clock);
  const running = entering(turns, 1n);
  await soon();
  const holder = entering(turns, 2n);
  await soon();
  expect([running.state, holder.state]).toEqual(["in", "waiting"]);
  guard.silentFor = 1n;
  const late = Array.from({ length: 40 }, () => entering(turns, 1n));
  await soon();
  running.leave();
  await soon();
  expect(holder.state).toBe("in");
  expect(new Set(late.map(({ state }) => state))).toEqual(new Set(["STALE_TOKEN"]));
});

test("stale requests are rejected without a call of the guard, also between two requests of the holder", async () => {
  const guard = countingGuard();
  const turns = new Turns(guard, clock);
  const first = entering(turns, 7n);
  await soon();
  first.leave();
  const before = guard.asked;
  const stale = Array.from({ length: 40 }, () => entering(turns, 6n));
  const next = entering(turns, 7n);
  await soon();
  expect(new Set(stale.map(({ state }) => state))).toEqual(new Set(["STALE_TOKEN"]));
  expect(next.state).toBe("in");
  expect(guard.asked - before).toBe(1);
});

test("S2: after the highest token of an idle resource was forgotten, the guard still rejects a stale request", async () => {
  const guard = countingGuard();
  const turns = new Turns(guard, clock);
  const enter = async (resource: string, token: bigint): Promise<void> => {
    (await turns.enter({ resource, token }, { waitMs: WAIT_MS, onGone: () => undefined }))();
  };
  await enter("r", 7n);
  for (let index = 0; index < 1_000; index += 1) await enter(`other/${index}`, 1n);
  const before = guard.asked;
  await expect(enter("r", 6n)).rejects.toMatchObject({ code: "STALE_TOKEN", highest: 7n });
  expect(guard.asked - before).toBe(1);
});

test("a request that waited for waitMs gives up, and leaves no timer", async () => {
  const turns = new Turns(memoryGuard(), clock);
  const stuck = entering(turns, 1n);
  await soon();
  const next = entering(turns, 2n);
  await clock.advance(WAIT_MS - 1);
  expect(next.state).toBe("waiting");
  await clock.advance(1);
  expect([stuck.state, next.state]).toEqual(["in", "timeout"]);
  const again = entering(turns, 2n);
  await soon();
  stuck.leave();
  await soon();
  expect(again.state).toBe("in");
  expect(clock.timers).toBe(0);
});

test("a waiting request whose client has gone leaves immediately", async () => {
  const turns = new Turns(memoryGuard(), clock);
  const stuck = entering(turns, 1n);
  await soon();
  const waiting = Array.from({ length: 1_000 }, () => entering(turns, 2n));
  await soon();
  for (const { hangUp } of waiting) hangUp();
  await soon();
  expect(new Set(waiting.map(({ state }) => state))).toEqual(new Set(["gone"]));
  const next = entering(turns, 2n);
  await soon();
  expect(next.state).toBe("waiting");
  stuck.leave();
  await soon();
  expect(next.state).toBe("in");
});

test("a waiting request is rejected as soon as a newer one is admitted, without another call of the guard", async () => {
  const guard = countingGuard();
  const turns = new Turns(guard, clock);
  const stuck = entering(turns, 1n);
  await soon();
  const crowd = Array.from({ length: 1_000 }, () => entering(turns, 2n));
  await soon();
  const newest = entering(turns, 3n);
  await soon();
  expect(new Set(crowd.map(({ state }) => state))).toEqual(new Set(["STALE_TOKEN"]));
  expect([stuck.state, newest.state]).toEqual(["in", "waiting"]);
  expect(guard.asked).toBe(1 + 1_000 + 1);
});

test("1,001 requests of one token run side by side; of its successor, 1,000 may wait", async () => {
  const turns = new Turns(memoryGuard(), clock);
  const running = Array.from({ length: 1_001 }, () => entering(turns, 1n));
  await soon();
  expect(running.filter(({ state }) => state === "in")).toHaveLength(1_001);
  const waiting = Array.from({ length: 1_001 }, () => entering(turns, 2n));
  await soon();
  expect(waiting.filter(({ state }) => state === "waiting")).toHaveLength(1_000);
  expect(waiting.at(-1)?.state).toBe("crowded");
  for (const { leave } of running) leave();
  await soon();
  expect(waiting.filter(({ state }) => state === "in")).toHaveLength(1_000);
});

test("S2: a turn that is ended twice does not end the turn of another request", async () => {
  const turns = new Turns(memoryGuard(), clock);
  const [one, two] = [entering(turns, 1n), entering(turns, 1n)];
  await soon();
  one.leave();
  one.leave();
  const next = entering(turns, 2n);
  await soon();
  expect([two.state, next.state]).toEqual(["in", "waiting"]);
});

test("S2: two guards in front of one resource share their turns when they are made with the same guard", async () => {
  const guard = memoryGuard();
  const old = entering(Turns.forGuard(guard, clock), 1n);
  await soon();
  const fresh = entering(Turns.forGuard(guard, clock), 2n);
  await soon();
  expect([old.state, fresh.state]).toEqual(["in", "waiting"]);
  old.leave();
  await soon();
  expect(fresh.state).toBe("in");
});
