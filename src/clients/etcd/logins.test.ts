// Goal: one login serves all requests that need it, and a request waits for it only within its own
// limit. Method: a clock that the test moves, and an Authenticate request that is a promise.

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
    code: "STORE_UNAVAILABLE",
    applied: "no",
    message: "etcd at host:1 did not answer the login within 100 ms.",
  });
  await clock.advance(100);
  await refused;
  asked[0]?.resolve("fresh");
  await patient;
});

test("a failed login fails every request that waited, and the next request starts another one", async () => {
  const { logins, asked } = world();
  const waiting = Array.from({ length: 5 }, () => logins.ready(logins.current, 1_000));
  const outcomes = Promise.allSettled(waiting);
  asked[0]?.reject(new StoreUnavailableError("refused", { applied: "no" }));
  expect((await outcomes).map(({ status }) => status)).toEqual(Array(5).fill("rejected"));
  void logins.ready(logins.current, 1_000)?.catch(() => undefined);
  expect(asked).toHaveLength(2);
});

test("a login has at least five seconds, however short the limit of the request that started it", () => {
  const { logins, asked } = world();
  void logins.ready(logins.current, 100)?.catch(() => undefined);
  expect(asked[0]?.limitMs).toBe(5_000);
});
