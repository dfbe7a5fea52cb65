// Goal: a revocation is reported at once, or with the first answer that can carry it, to the right
// lease and to no other. Method: a second holder revokes, and the wrapped store loses notifications
// and delays answers, on a manual clock.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  GRACE_MS,
  hang,
  loseReply,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
} from "../../test/support/holder/holder-world.ts";
import { LeaseLostError } from "../core/errors.ts";
import { ACKNOWLEDGED_MAX } from "../stores/contract.ts";

describe("revocation", () => {
  test("the store notifies the revoked lease at once", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const revoked = await one.tenure.acquire("a");
    const { signal } = revoked;
    await two.tenure.revoke("a");
    await flush();
    expect(signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    expect(one.store.calls.renew).toBe(0);
  });

  test("if the notification is lost, the next renewal reports it to the revoked lease and to no other", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    one.store.losesEvents = true;
    const revoked = await one.tenure.acquire("a");
    const kept = await one.tenure.acquire("b");
    const { signal } = revoked;
    expect(await two.tenure.revoke("a")).toMatchObject({ holderId: "one", token: 1n });
    await clock.advance(RENEW_EVERY_MS - 1);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    expect(() => revoked.check()).toThrow(/a third party revoked it/);
    expect(kept.check()).toBe(1n);
    expect(kept.signal.aborted).toBe(false);
  });

  test("S6: a revoked lease is lost even if the same holder already has the next one", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const first = await one.tenure.acquire("a");
    const { signal } = first;
    await two.tenure.revoke("a");
    const second = await one.tenure.acquire("a");
    await clock.advance(RENEW_EVERY_MS);
    expect(second.check()).toBe(2n);
    expect(() => first.check()).toThrow(LeaseLostError);
    expect(signal.reason).toMatchObject({ reason: "revoked" });
  });

  test("S5: an old revocation does not affect the same holder's next lease on the resource", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("a");
    await two.tenure.revoke("a");
    const second = await one.tenure.acquire("a");
    await clock.advance(4 * RENEW_EVERY_MS);
    expect(second.check()).toBe(2n);
    expect(second.signal.aborted).toBe(false);
  });

  test("releasing a revoked lease returns lost and does not affect its successor", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const revoked = await one.tenure.acquire("a");
    await two.tenure.revoke("a");
    const successor = await two.tenure.acquire("a");
    expect(await revoked.release()).toBe("lost");
    expect((await two.tenure.read("a")).holder?.token).toBe(successor.token);
  });

  test("S6: an answer that is too late for a renewal still reports it", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const revoked = await one.tenure.acquire("a", { whileInDoubt: "act" });
    const kept = await one.tenure.acquire("b", { whileInDoubt: "act" });
    one.store.losesEvents = true;
    await two.tenure.revoke("a");
    const answered = new Gate();
    one.store.hooks.renew = (_, forward) => {
      one.store.hooks.renew = hang;
      return forward().then((answer) => answered.opened.then(() => answer));
    };
    await clock.advance(RENEW_EVERY_MS + 900 + GRACE_MS);
    expect(revoked.check()).toBe(1n);
    answered.open();
    await flush();
    expect(() => revoked.check()).toThrow(/a third party revoked it/);
    expect(kept.check()).toBe(1n);
  });

  test("S6: an answer that is too late still reports a session that has ended", async () => {
    const { clock, backend, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("a", { whileInDoubt: "act" });
    backend.sessions.clear();
    const answered = new Gate();
    store.hooks.renew = (_, forward) => {
      store.hooks.renew = hang;
      return forward().then((answer) => answered.opened.then(() => answer));
    };
    await clock.advance(RENEW_EVERY_MS + 900 + GRACE_MS);
    expect(lease.check()).toBe(1n);
    answered.open();
    await flush();
    expect(() => lease.check()).toThrow(/the session is gone/);
  });
});

describe("a revocation before there is a lease", () => {
  test("S6: a grant that is revoked while its acquisition waits for the end of doubt gives no lease", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("ledger");
    one.store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    const acquiring = one.tenure.acquire("settlement");
    expect(await outcome(acquiring)).toBe("pending");
    await two.tenure.revoke("settlement");
    one.store.hooks.renew = undefined;
    await clock.advance(100);
    expect((await acquiring).check()).toBe(2n);
  });

  test("S6: nor does a grant whose answer comes after the renewal that reports its revocation", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const ledger = await one.tenure.acquire("ledger");
    const answered = new Gate();
    one.store.hooks.grant = async (_, forward) => {
      one.store.hooks.grant = undefined;
      const answer = await forward();
      await answered.opened;
      return answer;
    };
    await clock.advance(RENEW_EVERY_MS - 100);
    const acquiring = one.tenure.acquire("settlement");
    await flush();
    await two.tenure.revoke("settlement");
    await clock.advance(200);
    expect(one.store.calls.renew).toBe(1);
    answered.open();
    await flush();
    expect((await acquiring).check()).toBe(2n);
    expect(ledger.check()).toBe(1n);
  });
});

describe("acknowledgements", () => {
  /** What each renewal of `one` acknowledged and what its answer reported, as resources. */
  async function listening() {
    const { clock, backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("kept");
    const heard: { acknowledged: string[]; reported: string[] }[] = [];
    one.store.hooks.renew = async ({ acknowledged }, forward) => {
      const answer = await forward();
      const gone = answer.kind === "renewed" ? answer.gone : [];
      const names = (refs: readonly { resource: string }[]): string[] =>
        refs.map(({ resource }) => resource);
      heard.push({ acknowledged: names(acknowledged), reported: names(gone) });
      return answer;
    };
    const revoke = async (resource: string): Promise<void> => {
      await one.tenure.acquire(resource);
      await two.tenure.revoke(resource);
    };
    const atStore = (): number =>
      [...backend.sessions.values()].reduce((sum, { revoked }) => sum + revoked.size, 0);
    return { clock, one, heard, revoke, atStore };
  }

  test("a renewal acknowledges what the previous answer reported, once", async () => {
    const { clock, heard, revoke, atStore } = await listening();
    await revoke("a");
    await clock.advance(3 * RENEW_EVERY_MS);
    expect(heard).toEqual([
      { acknowledged: [], reported: ["a"] },
      { acknowledged: ["a"], reported: [] },
      { acknowledged: [], reported: [] },
    ]);
    expect(atStore()).toBe(0);
  });

  test("S6: a report that never arrived is not acknowledged", async () => {
    const { clock, one, heard, revoke, atStore } = await listening();
    const listen = one.store.hooks.renew;
    await revoke("a");
    one.store.hooks.renew = (_, forward) => {
      one.store.hooks.renew = listen;
      return loseReply(forward);
    };
    await clock.advance(RENEW_EVERY_MS);
    expect(atStore()).toBe(1);
    await clock.advance(RENEW_EVERY_MS);
    expect(heard[0]).toEqual({ acknowledged: [], reported: ["a"] });
  });

  test("a lost answer repeats the acknowledgement", async () => {
    const { clock, one, heard, revoke, atStore } = await listening();
    const listen = one.store.hooks.renew;
    await revoke("a");
    await clock.advance(RENEW_EVERY_MS);
    await revoke("b");
    one.store.hooks.renew = (_, forward) => {
      one.store.hooks.renew = listen;
      return loseReply(forward);
    };
    await clock.advance(4 * RENEW_EVERY_MS);
    expect(heard.slice(1, 4)).toEqual([
      { acknowledged: ["a"], reported: ["b"] },
      { acknowledged: ["b"], reported: [] },
      { acknowledged: [], reported: [] },
    ]);
    expect(atStore()).toBe(0);
  });

  test("a long-lived session does not accumulate revocations", async () => {
    const { clock, heard, revoke, atStore } = await listening();
    for (let round = 0; round < 50; round += 1) {
      await revoke(`r${round}`);
      await clock.advance(RENEW_EVERY_MS);
    }
    expect(Math.max(...heard.map(({ acknowledged }) => acknowledged.length))).toBe(1);
    expect(Math.max(...heard.map(({ reported }) => reported.length))).toBe(1);
    expect(atStore()).toBe(1);
  });

  test("one renewal acknowledges a bounded number, and the next ones the rest", async () => {
    const { clock, heard, revoke, atStore } = await listening();
    for (let index = 0; index < 2 * ACKNOWLEDGED_MAX + 1; index += 1) await revoke(`r${index}`);
    await clock.advance(4 * RENEW_EVERY_MS);
    expect(heard.map(({ acknowledged }) => acknowledged.length)).toEqual([
      ...[0, ACKNOWLEDGED_MAX, ACKNOWLEDGED_MAX, 1],
    ]);
    expect(atStore()).toBe(0);
  });
});
