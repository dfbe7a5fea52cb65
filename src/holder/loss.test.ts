// Goal: doubt and loss reach the right leases immediately and with their causes, and a lost lease
// stays lost (S6, S7). Method: a store that goes down, hangs, answers late or forgets, on a manual
// clock.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  GRACE_MS,
  hang,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
} from "../../test/support/holder/holder-world.ts";
import { LeaseInDoubtError, LeaseLostError, StoreUnavailableError } from "../core/errors.ts";
import { ManualClock } from "../testing/manual-clock.ts";

describe("doubt", () => {
  test("S6: a failed renewal puts the lease in doubt, and the next successful one ends the doubt", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS - 1);
    expect(lease.check()).toBe(1n);
    await clock.advance(1);
    expect(() => lease.check()).toThrow(LeaseInDoubtError);
    const settled = lease.confirmed();
    expect(await outcome(settled)).toBe("pending");
    store.hooks.renew = undefined;
    await clock.advance(100);
    await settled;
    expect(lease.check()).toBe(1n);
    expect(signal.aborted).toBe(false);
  });

  test("the error in doubt has the cause of the failed renewal", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    const error = (await outcome(lease.run(() => 1))) as { error: LeaseInDoubtError };
    expect(error.error).toMatchObject({ code: "LEASE_IN_DOUBT", retryable: true });
    expect(error.error.cause).toBeInstanceOf(StoreUnavailableError);
  });

  test("a renewal that hangs counts as failed after roundTripMs", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.renew = hang;
    await clock.advance(RENEW_EVERY_MS + 900);
    expect(lease.check()).toBe(1n);
    await clock.advance(GRACE_MS);
    expect(() => lease.check()).toThrow(LeaseInDoubtError);
  });

  test("L3: one lost renewal does not lose the lease, whether it fails, hangs or only its answer is lost", async () => {
    const losses = [
      down,
      hang,
      (_: unknown, forward: () => Promise<unknown>) => forward().then(hang),
    ];
    for (const lose of losses) {
      const { clock, join } = makeWorld();
      const { tenure, store } = await join("one");
      const lease = await tenure.acquire("settlement");
      store.hooks.renew = (_, forward) => {
        store.hooks.renew = undefined;
        return lose(_, forward) as ReturnType<typeof forward>;
      };
      await clock.advance(60_000);
      expect(lease.check()).toBe(1n);
      expect(lease.signal.aborted).toBe(false);
    }
  });

  test('S6: with whileInDoubt "act" work continues in doubt, but not beyond safeUntil', async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement", { whileInDoubt: "act" });
    const careful = await tenure.acquire("ledger");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    expect(() => careful.check()).toThrow(LeaseInDoubtError);
    expect(await lease.run(() => "done")).toBe("done");
    await clock.advance(SAFE_MS - RENEW_EVERY_MS - 1);
    expect(lease.check()).toBe(1n);
    await clock.advance(1);
    expect(() => lease.check()).toThrow(LeaseLostError);
  });

  test("confirmed() resolves immediately without doubt, and rejects if the doubt ends in a loss", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    await lease.confirmed();
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    const settled = lease.confirmed().catch((error: unknown) => error);
    await clock.advance(SAFE_MS);
    expect(await settled).toBeInstanceOf(LeaseLostError);
    expect(await settled).toMatchObject({ reason: "expired" });
  });

  test("retries follow an increasing backoff within the remaining time", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("settlement");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS + 200);
    expect(store.calls.renew).toBeGreaterThanOrEqual(3);
    await clock.advance(SAFE_MS);
    expect(store.calls.renew).toBeLessThan(15);
  });
});

describe("renewals that overlap", () => {
  /** A round trip may take three intervals, so up to three renewals are in flight. */
  const slow = { ttlMs: 10_000, renewEveryMs: 1_000, clockErrorMs: 100, roundTripMs: 3_000 };

  test("a store that never answers gets a bounded number of retries", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one", slow);
    const lease = await tenure.acquire("settlement");
    store.hooks.renew = hang;
    await clock.advance(60_000);
    expect(() => lease.check()).toThrow(LeaseLostError);
    expect(store.calls.renew).toBeLessThanOrEqual(15);
    expect(clock.timers).toBe(0);
  });

  test("out-of-order answers leave the newest confirmation and clear the cause of a past doubt", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one", slow);
    const startedAt = clock.wallNow();
    const [first, third] = [new Gate(), new Gate()];
    store.hooks.renew = async (_, forward) => {
      const renewal = store.calls.renew;
      const answer = await forward();
      if (renewal === 1) await first.opened;
      if (renewal === 3) await third.opened.then(down);
      return answer;
    };
    const lease = await tenure.acquire("settlement");
    await clock.advance(4_000);
    first.open();
    third.open();
    await flush();
    expect(lease.check()).toBe(1n);
    clock.jump();
    const { confirmedAt, cause } = lease.signal.reason as LeaseLostError;
    expect(confirmedAt).toEqual(new Date(startedAt + 4_000));
    expect(cause).toBeUndefined();
  });
});

describe("loss", () => {
  test("S7: a store that is down past safeUntil loses the lease as expired, with the last confirmation", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    await clock.advance(2 * RENEW_EVERY_MS);
    const confirmedAt = new Date(clock.wallNow());
    store.hooks.renew = down;
    await clock.advance(SAFE_MS - 1);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.reason).toMatchObject({ reason: "expired", confirmedAt, token: 1n });
    expect((signal.reason as LeaseLostError).cause).toBeInstanceOf(StoreUnavailableError);
  });

  test("S6: a lost lease is not revived by renewals that succeed later", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lost = await tenure.acquire("settlement");
    store.hooks.renew = down;
    clock.stall(SAFE_MS);
    expect(() => lost.check()).toThrow(LeaseLostError);
    store.hooks.renew = undefined;
    await clock.advance(60_000);
    expect(() => lost.check()).toThrow(LeaseLostError);
    // The session is not reused either: a new one is opened.
    const next = await tenure.acquire("settlement");
    expect(next.check()).toBe(2n);
    expect(() => lost.check()).toThrow(LeaseLostError);
  });

  test("S6: a successful answer that arrives after safeUntil is too late", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    const answered = new Gate();
    store.hooks.renew = async (_, forward) => {
      const answer = await forward();
      await answered.opened;
      return answer;
    };
    await clock.advance(RENEW_EVERY_MS);
    // The process is stopped. The answer waits in its socket and is read before any timer runs.
    clock.stall(SAFE_MS - RENEW_EVERY_MS);
    answered.open();
    await flush();
    expect(signal.reason).toMatchObject({ reason: "expired" });
    expect(() => lease.check()).toThrow(LeaseLostError);
  });

  test("a session that the store has forgotten loses all its leases at the next renewal", async () => {
    const { clock, backend, join } = makeWorld();
    const { tenure } = await join("one");
    const leases = [await tenure.acquire("a"), await tenure.acquire("b")];
    backend.sessions.clear();
    await clock.advance(RENEW_EVERY_MS);
    for (const lease of leases) {
      expect(() => lease.check()).toThrow(/the store says that the session is gone/);
      expect(lease.signal.reason).toMatchObject({ reason: "expired" });
    }
  });

  test("the loss of one session does not affect a session with another ttl", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const short = await tenure.acquire("short");
    const long = await tenure.acquire("long", { ttlMs: 60_000 });
    clock.stall(SAFE_MS);
    expect(() => short.check()).toThrow(LeaseLostError);
    expect(long.check()).toBe(1n);
  });
});

/** Like the real clock, this one detects a jump only when it is read, inside the reading code. */
class SleepyClock extends ManualClock {
  readings = Number.POSITIVE_INFINITY;

  override now(): number {
    this.readings -= 1;
    if (this.readings === 0) this.jump();
    return super.now();
  }
}

describe("a clock that jumped", () => {
  test("S3: every lease of every session is lost immediately, without a timer", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const leases = [
      await tenure.acquire("a"),
      await tenure.acquire("b"),
      await tenure.acquire("c", { ttlMs: 60_000, whileInDoubt: "act" }),
    ];
    const signals = leases.map((lease) => lease.signal);
    clock.jump();
    for (const signal of signals) expect(signal.reason).toMatchObject({ reason: "expired" });
    for (const lease of leases) expect(() => lease.check()).toThrow(/the clock jumped/);
  });

  test("after a jump the next acquisition opens a new session", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const before = await tenure.acquire("a");
    clock.jump();
    const next = await tenure.acquire("b");
    expect(next.check()).toBe(1n);
    expect(store.calls.openSession).toBe(2);
    expect(await before.release()).toBe("lost");
  });

  test("S3: a session is not used if the clock jumped while it was opened", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const answered = new Gate();
    const opened: string[] = [];
    store.hooks.openSession = async (request, forward) => {
      opened.push(request.sessionId);
      const answer = await forward();
      await answered.opened;
      return answer;
    };
    const acquiring = tenure.acquire("settlement");
    await flush();
    clock.jump();
    answered.open();
    await clock.advance(100);
    await acquiring;
    expect((await tenure.read("settlement")).holder?.sessionId).not.toBe(opened[0]);
  });

  test.each([1, 2, 3, 4, 5])(
    "S3: nor if reading %i of the clock after the answer detects the jump",
    async (reading) => {
      const clock = new SleepyClock();
      const { join } = makeWorld(clock);
      const { tenure, store } = await join("one");
      const opened: string[] = [];
      store.hooks.openSession = async (request, forward) => {
        opened.push(request.sessionId);
        const answer = await forward();
        if (opened.length === 1) clock.readings = reading;
        return answer;
      };
      const acquiring = tenure.acquire("settlement");
      await clock.advance(100);
      const lease = await acquiring;
      expect(lease.check()).toBeGreaterThanOrEqual(1n);
      expect((await tenure.read("settlement")).holder?.sessionId).not.toBe(opened[0]);
    },
  );

  test.each([1, 2, 3])(
    "L1: a caller of confirmed() is rejected if reading %i of the clock detects the jump",
    async (reading) => {
      const clock = new SleepyClock();
      const { tenure, store } = await makeWorld(clock).join("one");
      const lease = await tenure.acquire("a");
      store.hooks.renew = down;
      await clock.advance(RENEW_EVERY_MS);
      expect(() => lease.check()).toThrow(LeaseInDoubtError);
      clock.readings = reading;
      const confirming = outcome(lease.confirmed());
      expect(() => lease.check()).toThrow(LeaseLostError);
      expect(await confirming).toMatchObject({ error: { code: "LEASE_LOST", reason: "expired" } });
    },
  );

  test("S3: a jump while the grant is in flight gives no lease on the old session", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const answered = new Gate();
    store.hooks.grant = async (_, forward) => {
      store.hooks.grant = undefined;
      const answer = await forward();
      await answered.opened;
      return answer;
    };
    const acquiring = tenure.acquire("settlement");
    await flush();
    clock.jump();
    answered.open();
    await clock.advance(100);
    const lease = await acquiring;
    expect(store.calls.openSession).toBe(2);
    expect(lease.check()).toBeGreaterThan(1n);
  });
});
