// Goal: one login serves all requests that need it, and a request waits for it only within its own limit. Method: a clock
// that the test moves, and an Authenticate request that is a promise.

import { expect, test } from "vitest";
import { StoreUnavailableError } from "../../core/errors.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Logins } from "./logins.ts";

interface Asked {
  readonly limitMs: number;
  resolve(token: string): void;
  reject(error: Error): void;
}

function world(): { clock: ManualClock; logins: Logins; asked: Asked[] } {
  const clock = new ManualClock();
  const asked: Asked[] = [];
  const authenticate = (limitMs: number): Promise<string> =>
    new Promise((resolve, reject) => asked.push({ limitMs, resolve, reject }));
  return { clock, asked, logins: new Logins({ clock, place: "host:1", authenticate }) };
}

test("requests that had the same credential rejected share one login", async () => {
  const { logins, asked } = world();
  const first = logins.current;
  expect(logins.ready(undefined, 100)).toBeUndefined();
  const waiting = [logins.ready(first, 100), logins.ready(first, 100)];
  const unsent = logins.ready(undefined, 100);
  expect(asked).toHaveLength(1);
  asked[0]?.resolve("fresh");
  await Promise.all([...waiting, unsent]);
  expect(logins.current.token).toBe("fresh");
  // The rejection of a request that left before the login.
  expect(logins.ready(first, 100)).toBeUndefined();
});

test("a request stops waiting at its own limit, and the login goes on", async () => {
  const { clock, logins, asked } = world();
  const patient = logins.ready(logins.current, 1_000);
  const hasty = logins.ready(undefined, 100);
  const refused = expect(hasty).rejects.toMatchObject({
    ...{ code: "STORE_UNAVAILABLE", applied: "no" },
    message: "etcd at host:1 did not answer the login within 100 ms.",
  });
  await clock.advance(100);
  await refused;
  asked[0]?.resolve("fresh");
  await patient;
});

test("a request with time left starts another login when the one it waited for runs into a shorter limit", async () => {
  const { logins, asked } = world();
  const hasty = logins.ready(logins.current, 100);
  const patient = [logins.ready(undefined, 1_000), logins.ready(undefined, 1_000)];
  asked[0]?.reject(new StoreUnavailableError("too late", { applied: "unknown" }));
  await expect(hasty).rejects.toThrow("too late");
  expect(asked.map(({ limitMs }) => limitMs)).toEqual([100, 1_000]);
  asked[1]?.resolve("fresh");
  await Promise.all(patient);
});

test("a failed login that has been repeated once fails every request that waited", async () => {
  const { logins, asked } = world();
  const waiting = Array.from({ length: 5 }, () => logins.ready(logins.current, 1_000));
  const outcomes = Promise.allSettled(waiting);
  for (let round = 0; round < 2; round += 1) {
    asked[round]?.reject(new StoreUnavailableError("refused", { applied: "no" }));
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect((await outcomes).map(({ status }) => status)).toEqual(Array(5).fill("rejected"));
  expect(asked).toHaveLength(2);
});
