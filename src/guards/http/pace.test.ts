// Goal: stale requests are answered one by one, and none of them waits for long. Method: a clock
// that the test moves.

import { expect, test } from "vitest";
import { ManualClock } from "../../testing/manual-clock.ts";
import { memoryGuard } from "../memory/index.ts";
import { Admission } from "./admission.ts";
import { Pace } from "./pace.ts";

test("the first answer is not delayed, the others follow one per 5 ms, and none is delayed for more than 1 s", async () => {
  const clock = new ManualClock();
  const pace = new Pace(clock);
  const begin = clock.now();
  const at: number[] = [];
  const all = Array.from({ length: 300 }, () =>
    pace.next().then(() => at.push(clock.now() - begin)),
  );
  await clock.advance(2_000);
  await Promise.all(all);
  expect(at.slice(0, 4)).toEqual([0, 5, 10, 15]);
  expect(Math.max(...at)).toBe(1_000);
  await pace.next();
  expect(clock.timers).toBe(0);
});

test("only stale requests are delayed", async () => {
  const clock = new ManualClock();
  const guard = memoryGuard();
  guard.advance({ resource: "a", token: 5n });
  const admission = new Admission({
    guard,
    resource: "a",
    waitMs: 1_000,
    clock,
    onError: () => expect.unreachable(),
  });
  const enter = (header: string): { status?: number } => {
    const seen: { status?: number } = {};
    const request = {};
    void admission
      .enter({ request, key: request, header, onGone: () => undefined })
      .then((entry) => {
        seen.status = "status" in entry ? entry.status : 200;
      });
    return seen;
  };
  const stale = Array.from({ length: 3 }, () => enter('resource="a", token=4'));
  const others = ['resource="a", token=5', "x", 'resource="b", token=1'].map(enter);
  await clock.advance(0);
  expect(stale.map(({ status }) => status)).toEqual([409, undefined, undefined]);
  expect(others.map(({ status }) => status)).toEqual([200, 400, 403]);
  await clock.advance(10);
  expect(stale.map(({ status }) => status)).toEqual([409, 409, 409]);
});
