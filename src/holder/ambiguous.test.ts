// Goal: a grant whose answer is lost, late or wrong leads to exactly one lease or to none, and
// nothing remains at the store. Method: the wrapped store applies requests and loses the answers,
// or delays requests until the holder has given up.
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
  SAFE_MS,
  TIMING,
} from "../../test/support/holder/holder-world.ts";
import { StoreUnavailableError, TokenRegressionError } from "../core/errors.ts";

describe("a grant whose answer is lost", () => {
  test("S1: a repeated request returns the same grant with the same token", async () => {
    const { clock, backend, join } = makeWorld();
    const { tenure, store } = await join("one");
    const attempts: string[] = [];
    store.hooks.grant = (request, forward) => {
      attempts.push(request.attempt);
      return attempts.length === 1 ? loseReply(forward) : forward();
    };
    const acquiring = tenure.tryAcquire("settlement");
    await clock.advance(100);
    const lease = await acquiring;
    expect(lease?.check()).toBe(1n);
    expect(backend.entries.get("settlement")?.token).toBe(1n);
    expect(new Set(attempts).size).toBe(1);
    expect(await lease?.release()).toBe("released");
  });

  test("a request that hangs is repeated after roundTripMs", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.grant = (_, forward) => {
      store.hooks.grant = undefined;
      return forward().then(hang);
    };
    const acquiring = tenure.acquire("settlement");
    await clock.advance(900);
    expect(await outcome(acquiring)).toBe("pending");
    await clock.advance(200);
    expect((await acquiring).check()).toBe(1n);
  });

  test("an acquisition that gives up withdraws it immediately", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    one.store.hooks.grant = (_, forward) => loseReply(forward);
    const acquiring = one.tenure.tryAcquire("settlement").catch((error: unknown) => error);
    await clock.advance(1_000);
    expect(await acquiring).toBeInstanceOf(StoreUnavailableError);
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("if the withdrawal is lost too, the next renewal repeats it", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const kept = await one.tenure.acquire("ledger");
    one.store.hooks.grant = (_, forward) => loseReply(forward);
    one.store.hooks.withdraw = down;
    const acquiring = one.tenure.tryAcquire("settlement").catch((error: unknown) => error);
    await clock.advance(1_000);
    expect(await acquiring).toBeInstanceOf(StoreUnavailableError);
    expect(await two.tenure.tryAcquire("settlement")).toBeUndefined();
    await clock.advance(RENEW_EVERY_MS);
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
    expect(kept.check()).toBe(1n);
  });

  test("a waiter repeats the request, because the lost one may have been granted", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await two.tenure.acquire("settlement");
    let late: (() => Promise<unknown>) | undefined;
    one.store.hooks.grant = (_, forward) => {
      if (late !== undefined) return forward();
      late = forward;
      return hang();
    };
    const acquiring = one.tenure.acquire("settlement", { waitMs: 60_000 });
    await clock.advance(2_000);
    expect(one.store.calls.grant).toBe(2);
    await held.release();
    expect((await acquiring).check()).toBe(2n);
    expect(await late?.()).toEqual({ kind: "granted", token: 2n });
  });

  test("renewals withdraw a copy of the request that arrives after the lease has ended", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("ledger");
    const attempts: string[] = [];
    store.hooks.grant = (request, forward) => {
      attempts.push(request.attempt);
      return attempts.length === 1 ? loseReply(forward) : forward();
    };
    const withdrawn: string[][] = [];
    store.hooks.renew = (request, forward) => {
      withdrawn.push(request.withdrawn.map(({ attempt }) => attempt));
      return forward();
    };
    const acquiring = tenure.acquire("settlement");
    await clock.advance(100);
    const lease = await acquiring;
    await clock.advance(RENEW_EVERY_MS);
    expect(await lease.release()).toBe("released");
    const answered = await tenure.acquire("rates");
    await answered.release();
    await clock.advance(RENEW_EVERY_MS);
    // Not while the lease is held, and not for requests that were answered.
    expect(withdrawn).toEqual([[], [attempts[0]]]);
  });

  test("an attempt that has ended is not accepted as a grant; a new attempt follows", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    one.store.hooks.grant = (_, forward) => {
      one.store.hooks.grant = undefined;
      return loseReply(forward);
    };
    const acquiring = one.tenure.acquire("settlement");
    await flush();
    await two.tenure.revoke("settlement");
    await clock.advance(100);
    expect((await acquiring).check()).toBe(2n);
  });
});

describe("a grant that arrives after its withdrawal", () => {
  /** A request that the network delays: the holder gives up on it, and the test delivers it. */
  function delayed(): {
    hook: (_: unknown, forward: () => Promise<never>) => Promise<never>;
    deliver: () => Promise<void>;
  } {
    let forwardLater: (() => Promise<unknown>) | undefined;
    return {
      hook: (_, forward) => {
        forwardLater = forward;
        const message = "no answer (by the test)";
        return Promise.reject(new StoreUnavailableError(message, { applied: "unknown" }));
      },
      deliver: async () => {
        await forwardLater?.();
      },
    };
  }

  test("is withdrawn by the next renewal", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const kept = await one.tenure.acquire("ledger");
    const { hook, deliver } = delayed();
    one.store.hooks.grant = hook as never;
    const acquiring = one.tenure.tryAcquire("settlement").catch((error: unknown) => error);
    await clock.advance(1_000);
    expect(await acquiring).toBeInstanceOf(StoreUnavailableError);
    expect(one.store.calls.withdraw).toBe(1);
    await deliver();
    expect((await two.tenure.read("settlement")).holder?.holderId).toBe("one");
    await clock.advance(RENEW_EVERY_MS);
    expect((await two.tenure.read("settlement")).holder).toBeUndefined();
    expect(kept.check()).toBe(1n);
  });

  test("is withdrawn even if it arrives after several renewals", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("ledger");
    const { hook, deliver } = delayed();
    one.store.hooks.grant = hook as never;
    const acquiring = one.tenure.tryAcquire("settlement").catch((error: unknown) => error);
    await clock.advance(4 * RENEW_EVERY_MS);
    await acquiring;
    await deliver();
    await clock.advance(RENEW_EVERY_MS);
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("is covered for ten ttls: renewals repeat the withdrawal that long and then stop", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("ledger");
    store.hooks.grant = delayed().hook as never;
    const acquiring = tenure.tryAcquire("settlement").catch((error: unknown) => error);
    await clock.advance(1_000);
    await acquiring;
    let named: number[] = [];
    store.hooks.renew = (request, forward) => {
      named.push(request.withdrawn.length);
      return forward();
    };
    await clock.advance(9 * TIMING.ttlMs);
    expect(new Set(named)).toEqual(new Set([1]));
    await clock.advance(TIMING.ttlMs);
    named = [];
    await clock.advance(TIMING.ttlMs);
    expect(new Set(named)).toEqual(new Set([0]));
  });

  test("is rejected by the store if the session has ended", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const { hook, deliver } = delayed();
    store.hooks.grant = hook as never;
    const acquiring = tenure.tryAcquire("settlement").catch((error: unknown) => error);
    await clock.advance(2 * RENEW_EVERY_MS);
    await acquiring;
    await deliver();
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });
});

describe("a late grant", () => {
  test("S6: an answer that comes after the end of the session gives no lease", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.grant = async (_, forward) => {
      store.hooks.grant = undefined;
      const answer = await forward();
      clock.stall(SAFE_MS);
      return answer;
    };
    const acquiring = tenure.acquire("settlement", { waitMs: 60_000 });
    await flush();
    await clock.advance(5_000);
    const lease = await acquiring;
    expect(store.calls.openSession).toBe(2);
    expect(lease.check()).toBe(2n);
  });

  test("S6: a grant that comes in doubt gives a lease only after the doubt has ended", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("ledger");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    const acquiring = tenure.acquire("settlement");
    expect(await outcome(acquiring)).toBe("pending");
    store.hooks.renew = undefined;
    await clock.advance(100);
    expect((await acquiring).check()).toBe(1n);
  });

  test("an abort during that wait rejects with its reason, and the grant is withdrawn", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("ledger");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    const controller = new AbortController();
    const acquiring = tenure.acquire("settlement", { signal: controller.signal });
    expect(await outcome(acquiring)).toBe("pending");
    controller.abort("enough");
    expect(await outcome(acquiring)).toEqual({ error: "enough" });
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("a session unknown to the store is dropped, and the acquisition continues with a new one", async () => {
    const { backend, join } = makeWorld();
    const { tenure, store } = await join("one");
    const other = await tenure.acquire("ledger");
    backend.sessions.clear();
    const lease = await tenure.acquire("settlement");
    expect(lease.check()).toBe(1n);
    expect(store.calls.openSession).toBe(2);
    expect(() => other.check()).toThrow(/the session is gone/);
  });
});

describe("a store that lost writes", () => {
  test("S1: a token that is not above the last one is an error, and the grant is withdrawn", async () => {
    const { backend, join } = makeWorld();
    const { tenure, store } = await join("one");
    for (let round = 0; round < 3; round += 1) await (await tenure.acquire("settlement")).release();
    const entry = backend.entries.get("settlement");
    if (entry !== undefined) entry.token = 1n;
    const { error } = (await outcome(tenure.acquire("settlement"))) as {
      error: TokenRegressionError;
    };
    expect(error).toBeInstanceOf(TokenRegressionError);
    expect(error).toMatchObject({ offered: 2n, highest: 3n, resource: "settlement" });
    expect(store.calls.withdraw).toBe(1);
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test.each([0n, -1n, 2n ** 127n])("the invalid token %s is rejected", async (token) => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.grant = async (_, forward) => {
      await forward();
      return { kind: "granted", token };
    };
    const result = await outcome(tenure.acquire("settlement"));
    expect(result).toMatchObject({ error: { code: "TOKEN_REGRESSION" } });
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("each resource has its own tokens", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    for (let round = 0; round < 3; round += 1) await (await tenure.acquire("a")).release();
    expect((await tenure.acquire("b")).token).toBe(1n);
  });
});

test("S7: an answer that arrives after its caller gave up has no effect", async () => {
  const { clock, join } = makeWorld();
  const { tenure, store } = await join("one");
  const answered = new Gate();
  store.hooks.grant = (_, forward) => answered.opened.then(forward);
  const acquiring = tenure
    .acquire("settlement", { waitMs: 2_000 })
    .catch((error: unknown) => error);
  await clock.advance(5_000);
  expect(await acquiring).toBeInstanceOf(StoreUnavailableError);
  answered.open();
  await clock.advance(60_000);
  expect((await tenure.read("settlement")).holder).toBeUndefined();
  expect(clock.timers).toBe(0);
});
