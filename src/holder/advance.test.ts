// Goal: a caller that names guards gets the lease only after all of them are advanced, and
// otherwise an error within a bounded time. Method: memory guards and guards that refuse or hang,
// on a manual clock; afterwards the holder is read from the store.
import { describe, expect, test } from "vitest";
import { candidate } from "../../test/support/holder/election-world.ts";
import {
  hang,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
  TIMING,
} from "../../test/support/holder/holder-world.ts";
import { InvalidArgumentError, StaleTokenError } from "../core/errors.ts";
import type { AdvanceOptions, TokenSource } from "../guards/guard.ts";
import { memoryGuard } from "../guards/memory/index.ts";
import { boundedBy } from "../guards/proof/bounded.ts";
import type { Advanceable } from "./advance.ts";

const hanging: Advanceable = { advance: hang };
const failing: Advanceable = {
  advance: () => {
    throw new Error("out of order");
  },
};

describe("acquire with guards", () => {
  test("S2: the guard refuses the former holder before the new one has written", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const guard = memoryGuard();
    const first = await one.tenure.acquire("ledger");
    guard.write(first, () => undefined);
    one.store.losesEvents = true;
    await one.tenure.revoke("ledger");
    const second = await two.tenure.acquire("ledger", { guards: [guard] });
    expect(guard.highest("ledger")).toBe(second.token);
    expect(() => guard.write(first, () => undefined)).toThrow(StaleTokenError);
  });

  test("every guard is advanced, also with tryAcquire, withLease and defaults", async () => {
    const { join } = makeWorld();
    const [left, right] = [memoryGuard(), memoryGuard()];
    const { tenure } = await join("one", { ...TIMING, guards: [left] });
    await (await tenure.tryAcquire("a"))?.release();
    expect(left.highest("a")).toBe(1n);
    await tenure.withLease("a", { guards: [left, right] }, (lease) => {
      expect([left.highest("a"), right.highest("a")]).toEqual([lease.token, lease.token]);
    });
  });

  test("a guard gets the time limit of the holder, also through boundedBy()", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const limits: unknown[] = [];
    const guard = {
      advance: (_lease?: TokenSource, options?: AdvanceOptions) => void limits.push(options),
      highest: () => undefined,
    };
    await tenure.acquire("ledger", { guards: [guard, boundedBy(guard, tenure)] });
    expect(limits).toEqual([{ limitMs: SAFE_MS }, { limitMs: SAFE_MS }]);
  });

  test("a guard that has seen a higher token causes StaleTokenError, and the lease is released", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const guard = memoryGuard();
    guard.advance({ resource: "ledger", token: 99n });
    const facts = { code: "STALE_TOKEN", offered: 1n, highest: 99n };
    await expect(tenure.acquire("ledger", { guards: [guard] })).rejects.toMatchObject(facts);
    expect((await tenure.read("ledger")).holder).toBeUndefined();
    expect((await tenure.acquire("ledger")).token).toBe(2n);
  });

  test("any other failure is rethrown unchanged, and the lease is released", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const guard = memoryGuard();
    const wanted = tenure.acquire("ledger", { guards: [guard, failing] });
    await expect(wanted).rejects.toThrow("out of order");
    await expect(tenure.withLease("ledger", { guards: [failing] }, () => "ran")).rejects.toThrow();
    const bound = memoryGuard({ resource: "another" });
    const wrong = tenure.tryAcquire("ledger", { guards: [bound] });
    await expect(wrong).rejects.toBeInstanceOf(InvalidArgumentError);
    expect((await tenure.read("ledger")).holder).toBeUndefined();
  });

  test("S6: a process that was stopped while a guard was advanced does not get an expired lease", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    // The answer is there when the process continues; the timers have not run yet.
    const stopping: Advanceable = { advance: async () => clock.stall(SAFE_MS) };
    const wanted = tenure.acquire("ledger", { guards: [stopping] });
    await expect(wanted).rejects.toMatchObject({ code: "LEASE_LOST", reason: "expired" });
  });

  test("a guard that hangs is given up at the first deadline despite renewals, and the lease is released", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const wanted = tenure.acquire("ledger", {
      guards: [hanging],
      waitMs: Number.POSITIVE_INFINITY,
    });
    await clock.advance(SAFE_MS - 1);
    expect(store.calls.renew).toBeGreaterThan(0);
    expect(await outcome(wanted)).toBe("pending");
    const refused = expect(wanted).rejects.toMatchObject({
      code: "GUARD_UNAVAILABLE",
      retryable: true,
    });
    await clock.advance(1);
    await refused;
    expect((await tenure.read("ledger")).holder).toBeUndefined();
    await tenure.close();
    expect(clock.timers).toBe(0);
  });

  test("the caller's signal and close() end the wait for guards, and the lease is released", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const controller = new AbortController();
    const wanted = tenure.acquire("ledger", { guards: [hanging], signal: controller.signal });
    expect(await outcome(wanted)).toBe("pending");
    controller.abort(new Error("changed my mind"));
    await expect(wanted).rejects.toThrow("changed my mind");
    expect((await tenure.read("ledger")).holder).toBeUndefined();
    const again = outcome(tenure.acquire("ledger", { guards: [hanging] }));
    await tenure.close();
    expect(await again).toMatchObject({ error: { code: "CLOSED" } });
  });

  test("a lease that is lost while its guard is advanced is not returned", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const wanted = tenure.acquire("ledger", { guards: [hanging] });
    const lost = expect(wanted).rejects.toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    expect(await outcome(wanted)).toBe("pending");
    await tenure.revoke("ledger");
    await clock.advance(RENEW_EVERY_MS);
    await lost;
  });

  test("an object that is not a guard is rejected before any request", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    for (const guards of [{}, [undefined], [{}], "guard", memoryGuard()]) {
      const options = { guards: guards as Advanceable[] };
      await expect(tenure.acquire("ledger", options)).rejects.toThrow("must be an array of guards");
      expect(() => tenure.election("x", { lead: () => undefined, ...options })).toThrow("guards");
    }
    expect(store.calls.grant).toBe(0);
    await expect(join("two", { ...TIMING, guards: [{}] as Advanceable[] })).rejects.toThrow(
      "guards",
    );
  });
});

describe("an election with guards", () => {
  test("S2: `lead` begins after the guards are advanced; a failure is reported and retried", async () => {
    const world = makeWorld();
    const guard = memoryGuard();
    guard.advance({ resource: "leader", token: 2n });
    const advanced: unknown[] = [];
    const one = await candidate(world, "one", {
      guards: [guard],
      lead: (lease) => void advanced.push([lease.token, guard.highest("leader")]),
      campaignAgain: false,
    });
    one.election.start();
    await world.clock.advance(1_000);
    expect(one.events.find(({ type }) => type === "campaignFailed")).toMatchObject({
      error: { code: "STALE_TOKEN" },
    });
    expect(advanced).toEqual([[2n, 2n]]);
    await one.election.stop();
  });
});
