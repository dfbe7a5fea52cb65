// Goal: when only the wall clock moves forward (it was set, or the whole machine was paused),
// leases are in doubt until a renewal that was sent afterwards is confirmed, and with a healthy
// store none is lost (S3, S6). Method: a manual clock.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
} from "../../test/support/holder/holder-world.ts";
import { LeaseInDoubtError, LeaseLostError } from "../core/errors.ts";
import { ManualClock } from "../testing/manual-clock.ts";

/** Like the real clock, this one detects the step only when it is read. */
class SteppingClock extends ManualClock {
  readings = Number.POSITIVE_INFINITY;

  override now(): number {
    this.readings -= 1;
    if (this.readings === 0) this.jump("possible");
    return super.now();
  }
}

describe("a wall clock that moves forward alone", () => {
  test("S3, S6: the lease is in doubt immediately, and one renewal ends the doubt", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    await clock.advance(500);
    clock.jump("possible");
    expect(() => lease.check()).toThrow(LeaseInDoubtError);
    await clock.advance(1);
    expect(lease.check()).toBe(1n);
    expect(store.calls.renew).toBe(1);
    await clock.advance(RENEW_EVERY_MS - 1);
    expect(store.calls.renew).toBe(1);
    await clock.advance(1);
    expect(store.calls.renew).toBe(2);
    expect(signal.aborted).toBe(false);
  });

  test("the error names the cause", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    clock.jump("possible");
    const { error } = (await outcome(lease.run(() => 1))) as { error: LeaseInDoubtError };
    expect(error).toMatchObject({ code: "LEASE_IN_DOUBT", retryable: true });
    expect((error.cause as Error).message).toContain("wall clock moved forward");
  });

  test("S4: a lease that expired during the pause is lost with the first answer", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.renew = () => Promise.resolve({ kind: "gone" });
    clock.jump("possible");
    await clock.advance(1);
    expect(() => lease.check()).toThrow(LeaseLostError);
  });

  test("S3: the answer to a renewal that was sent before does not end the doubt", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const answered = new Gate();
    store.hooks.renew = async (_, forward) => {
      store.hooks.renew = down;
      const answer = await forward();
      await answered.opened;
      return answer;
    };
    await clock.advance(RENEW_EVERY_MS);
    // The machine was paused between the request and the answer.
    clock.jump("possible");
    answered.open();
    await clock.advance(1);
    expect(() => lease.check()).toThrow(LeaseInDoubtError);
    store.hooks.renew = undefined;
    await clock.advance(100);
    expect(lease.check()).toBe(1n);
  });

  test("L3: a renewal whose own timer detects the step is sent late enough to count", async () => {
    const clock = new SteppingClock();
    const { tenure, store } = await makeWorld(clock).join("one");
    const lease = await tenure.acquire("settlement");
    clock.readings = 1;
    await clock.advance(RENEW_EVERY_MS);
    expect(() => lease.check()).toThrow(LeaseInDoubtError);
    await clock.advance(1);
    expect(lease.check()).toBe(1n);
    expect(store.calls.renew).toBe(1);
  });

  test("S7: while the store is unavailable the lease stays in doubt, and ends at its old deadline", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const until = lease.safeUntil;
    store.hooks.renew = down;
    await clock.advance(1_000);
    clock.jump("possible");
    await clock.advance(SAFE_MS - 1_001);
    expect(lease.safeUntil).toBe(until);
    expect(() => lease.check()).toThrow(LeaseInDoubtError);
    await clock.advance(1);
    expect(() => lease.check()).toThrow(LeaseLostError);
  });

  test.each([
    ["a session that was being opened", "openSession"],
    ["a grant that was in flight", "grant"],
  ] as const)("S3: %s gives a lease only after a renewal", async (_, request) => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const [answered, renewed] = [new Gate(), new Gate()];
    const hold = async <T>(_request: unknown, forward: () => Promise<T>): Promise<T> => {
      const answer = await forward();
      await answered.opened;
      return answer;
    };
    store.hooks[request] = hold;
    store.hooks.renew = async (_renewal, forward) => {
      await renewed.opened;
      return forward();
    };
    const acquiring = tenure.acquire("settlement");
    await flush();
    clock.jump("possible");
    answered.open();
    await clock.advance(10);
    expect(await outcome(acquiring)).toBe("pending");
    renewed.open();
    await clock.advance(10);
    expect((await acquiring).check()).toBe(1n);
    expect([store.calls.openSession, store.calls.renew]).toEqual([1, 1]);
  });

  test('a lease with whileInDoubt: "act" continues', async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement", { whileInDoubt: "act" });
    clock.jump("possible");
    expect(lease.check()).toBe(1n);
  });
});
