// Goal: a grant whose answer is lost, late or wrong ends in exactly one lease or in none, and nothing stays behind at
// the store. Method: the wrapped store applies requests and loses the answers, or keeps requests back and delivers them
// after everyone has given up.
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
import { orAborted } from "../async/signals.ts";
import { StoreUnavailableError, TokenRegressionError } from "../core/errors.ts";

describe("a grant whose answer is lost", () => {
  test("S1: asked again it is the same grant with the same token, not a second one", async () => {
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

  test("a request that hangs is asked again after a healthy round trip", async () => {
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

  test("whoever gives up on it has it withdrawn at once", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    one.store.hooks.grant = (_, forward) => loseReply(forward);
    const acquiring = one.tenure.tryAcquire("settlement").catch((error: unknown) => error);
    await clock.advance(1_000);
    expect(await acquiring).toBeInstanceOf(StoreUnavailableError);
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("when the withdrawal is lost too, the next renewal carries it", async () => {
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

  test("one who waits asks again: the request that got no answer may have been granted meanwhile", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await two.tenure.acquire("settlement");
    let late: (() => Promise<unknown>) | undefined;
    one.store.hooks.grant = (_, forward) => {
      if (late !== undefined) return forward();
      late = forward;
      return hang();
    };
    // A store that does not know that the one who waits is the one who holds.
    one.store.hooks.untilFree = ({ signal }) => orAborted(hang(), signal);
    const acquiring = one.tenure.acquire("settlement", { waitMs: 60_000 });
    await clock.advance(2_000);
    expect(one.store.calls).toMatchObject({ grant: 2, untilFree: 1 });
    await held.release();
    await late?.();
    await clock.advance(RENEW_EVERY_MS);
    expect((await acquiring).check()).toBe(2n);
  });

  test("a copy of it may come when the lease is long over: the renewals give it back", async () => {
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
    // Not while it is held, and none that was answered.
    expect(withdrawn).toEqual([[], [attempts[0]]]);
  });

  test("an ended attempt is not taken for a grant: a new attempt is made", async () => {
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
  /** A request that the network keeps back: the holder gives up on it, and it is delivered when the test says so. */
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

  test("is given back by the next renewal", async () => {
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

  test("also when it arrives only after several renewals", async () => {
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

  test("renewals repeat a withdrawal for ten ttls and then stop, so that their list stays short", async () => {
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

  test("is refused when the session has ended meanwhile", async () => {
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
  test("S6: an answer that comes after the session's end is not handed out", async () => {
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

  test("S6: a grant that comes in doubt is handed out only when the doubt has ended", async () => {
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

  test("an abort during that wait rejects with its reason, and the grant is given back", async () => {
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

  test("a session that the store does not know is given up, and the acquisition goes on with another", async () => {
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

describe("a store that went back in time", () => {
  test("S1: a token that is not above the last one is an error, and the grant is given back", async () => {
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

  test.each([0n, -1n, 2n ** 127n])("the token %s is no token, and is refused", async (token) => {
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

  test("other resources have tokens of their own", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    for (let round = 0; round < 3; round += 1) await (await tenure.acquire("a")).release();
    expect((await tenure.acquire("b")).token).toBe(1n);
  });
});

test("S7: an answer nobody waits for any more harms nobody", async () => {
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
