// Goal: a waiter learns of its grant from a notification or, if that is lost, from its next
// renewal, and nothing that the store grants is left unused. Method: several processes on one
// memory backend and one manual clock; the wrapped store loses notifications and answers.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  TIMING,
} from "../../test/support/holder/holder-world.ts";

const WAIT = { waitMs: 60_000 };

/** One process holds "ledger", and another one waits for it. */
async function holdAndWait() {
  const world = makeWorld();
  const [one, two] = [await world.join("one"), await world.join("two")];
  const held = await one.tenure.acquire("ledger");
  const waiting = two.tenure.acquire("ledger", WAIT);
  await flush();
  return { ...world, one, two, held, waiting };
}

describe("a handoff", () => {
  test("L2: reaches the waiter without another request", async () => {
    const { two, held, waiting } = await holdAndWait();
    await held.release();
    expect((await waiting).check()).toBe(2n);
    expect(two.store.calls).toMatchObject({ grant: 1, renew: 0, withdraw: 0 });
  });

  test("L2: whose notification is lost is reported by the next renewal, and accepted by the one after", async () => {
    const { clock, backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("ledger");
    two.store.losesEvents = true;
    const waiting = two.tenure.acquire("ledger", WAIT);
    await flush();
    await held.release();
    await clock.advance(RENEW_EVERY_MS - 1);
    expect(await outcome(waiting)).toBe("pending");
    await clock.advance(1);
    const lease = await waiting;
    expect(lease.check()).toBe(2n);
    const session = backend.entries.get("ledger")?.held?.session;
    expect(session?.unaccepted.size).toBe(1);
    await clock.advance(RENEW_EVERY_MS);
    expect(session?.unaccepted.size).toBe(0);
    expect(lease.check()).toBe(2n);
  });

  test("to a waiter that gave up in the meantime is given back at once", async () => {
    const { join } = makeWorld();
    const [one, two, three] = [await join("one"), await join("two"), await join("three")];
    const held = await one.tenure.acquire("ledger");
    const quits = new AbortController();
    const waiting = two.tenure.acquire("ledger", { ...WAIT, signal: quits.signal });
    await flush();
    // The withdrawal gets lost, so the store still has the waiter in its queue.
    two.store.hooks.withdraw = () => Promise.resolve();
    quits.abort("enough");
    expect(await outcome(waiting)).toEqual({ error: "enough" });
    two.store.unhook();
    const next = three.tenure.acquire("ledger", WAIT);
    await flush();
    await held.release();
    expect((await next).check()).toBe(3n);
    expect(two.store.calls.withdraw).toBe(2);
  });

  test("S5: that is reported twice is not given back", async () => {
    const { clock, two, held, waiting } = await holdAndWait();
    await held.release();
    const lease = await waiting;
    two.store.hooks.renew = async (request, forward) => {
      const answer = await forward();
      const attempt = `${request.sessionId}.1`;
      const granted = [{ resource: "ledger", token: lease.token, attempt }];
      return answer.kind === "gone" ? answer : { ...answer, granted };
    };
    await clock.advance(2 * RENEW_EVERY_MS);
    expect(lease.check()).toBe(2n);
    expect(two.store.calls.withdraw).toBe(0);
  });

  test("S6: that was revoked before the waiter learned of it is never used", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("ledger");
    two.store.losesEvents = true;
    const waiting = two.tenure.acquire("ledger", WAIT);
    await flush();
    await held.release();
    await one.tenure.revoke("ledger");
    await clock.advance(RENEW_EVERY_MS);
    await flush();
    expect((await waiting).token).toBe(3n);
  });

  test("S1: whose report comes after a later grant to the same process has ended, and is no regression", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await two.tenure.acquire("ledger");
    let report = (_token: bigint): void => undefined;
    one.store.hooks.openSession = ({ sessionId, events }, forward) => {
      report = (token) => events?.granted({ resource: "ledger", token, attempt: `${sessionId}.1` });
      return forward();
    };
    const [first, second] = [
      one.tenure.acquire("ledger", WAIT),
      one.tenure.acquire("ledger", WAIT),
    ];
    await flush();
    one.store.losesEvents = true;
    await held.release();
    one.store.losesEvents = false;
    await two.tenure.revoke("ledger");
    const lease = await second;
    expect(lease.token).toBe(3n);
    report(2n);
    expect(await outcome(first)).toBe("pending");
    expect(lease.check()).toBe(3n);
    await lease.release();
    expect((await first).token).toBe(4n);
  });

  test("S6: to an abandoned attempt ends an earlier lease of the session on the same resource", async () => {
    const { clock, join } = makeWorld();
    const one = await join("one");
    const held = await one.tenure.acquire("ledger");
    // As after a failover that has lost this lease and restored an earlier queue entry.
    const grant = { resource: "ledger", token: held.token + 5n, attempt: "abandoned" };
    one.store.hooks.renew = async (_, forward) => ({ ...(await forward()), granted: [grant] });
    await clock.advance(RENEW_EVERY_MS);
    expect(() => held.check()).toThrow(/revoked/);
    expect(one.store.calls.withdraw).toBe(1);
  });

  test("S6: to a session in doubt waits until a renewal has succeeded", async () => {
    const { clock, two, held, waiting } = await holdAndWait();
    two.store.hooks.renew = () => Promise.reject(new Error("lost"));
    await clock.advance(RENEW_EVERY_MS + 1);
    await held.release();
    expect(await outcome(waiting)).toBe("pending");
    two.store.unhook();
    await clock.advance(RENEW_EVERY_MS);
    expect((await waiting).check()).toBe(2n);
  });
});

test("a waiter repeats its request if the store has lost its queue", async () => {
  const { clock, backend, two, held, waiting } = await holdAndWait();
  const entry = backend.entries.get("ledger");
  for (const { session } of entry?.queue.splice(0) ?? []) session.waiting.clear();
  await held.release();
  await clock.advance(RENEW_EVERY_MS - 1);
  expect(await outcome(waiting)).toBe("pending");
  await clock.advance(1);
  expect((await waiting).check()).toBe(2n);
  expect(two.store.calls.grant).toBe(2);
});

describe("lease.wanted", () => {
  test("aborts when another caller waits, also one of the same process", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const [a, b] = [await one.tenure.acquire("a"), await one.tenure.acquire("b")];
    const { wanted } = a;
    expect(wanted.aborted).toBe(false);
    const waits = [two.tenure.acquire("a", WAIT), one.tenure.acquire("b", WAIT)];
    await flush();
    expect(wanted.aborted).toBe(true);
    expect(wanted.reason).toMatchObject({ message: 'Another caller waits for "a".' });
    expect(b.wanted.aborted).toBe(true);
    expect([a.check(), b.check()]).toEqual([1n, 1n]);
    await Promise.all([a.release(), b.release(), ...waits]);
  });

  test("does not abort for a caller that does not wait", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("a");
    expect(await two.tenure.tryAcquire("a")).toBeUndefined();
    await flush();
    expect(held.wanted.aborted).toBe(false);
  });

  test("aborts with the next renewal if the notification is lost", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("a");
    one.store.losesEvents = true;
    const waiting = two.tenure.acquire("a", WAIT);
    await clock.advance(RENEW_EVERY_MS - 1);
    expect(held.wanted.aborted).toBe(false);
    await clock.advance(1);
    expect(held.wanted.aborted).toBe(true);
    await held.release();
    await waiting;
  });

  test("aborts for a lease that was wanted before its holder learned of the grant", async () => {
    const { clock, join } = makeWorld();
    const [one, two, three] = [await join("one"), await join("two"), await join("three")];
    const held = await one.tenure.acquire("a");
    const second = two.tenure.acquire("a", WAIT);
    await flush();
    const third = three.tenure.acquire("a", WAIT);
    await flush();
    await held.release();
    const lease = await second;
    await clock.advance(RENEW_EVERY_MS);
    expect(lease.wanted.aborted).toBe(true);
    await lease.release();
    await third;
  });
});

test("an acquisition that waits for ever keeps the process alive, and leaves no timer when it ends", async () => {
  const { clock, join } = makeWorld();
  const [one, two] = [await join("one"), await join("two")];
  const held = await one.tenure.acquire("a");
  const before = clock.timers;
  const waiting = two.tenure.acquire("a", { waitMs: Number.POSITIVE_INFINITY });
  await flush();
  expect(clock.timers).toBeGreaterThan(before);
  await clock.advance(10 * TIMING.ttlMs);
  await held.release();
  await (await waiting).release();
  await one.tenure.close();
  await two.tenure.close();
  expect(clock.timers).toBe(0);
});

describe("the release after withLease()", () => {
  test("is not awaited, but close() waits for it", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const answered = new Gate();
    store.hooks.release = (_, forward) => answered.opened.then(forward);
    expect(await tenure.withLease("a", (lease) => lease.token)).toBe(1n);
    expect(store.calls.release).toBe(1);
    const closing = tenure.close();
    expect(await outcome(closing)).toBe("pending");
    answered.open();
    expect(await outcome(closing)).toEqual({ value: undefined });
  });

  test("is sent only after work that was started inside has settled", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const gate = new Gate();
    const leased = tenure.withLease("a", (lease) => void lease.run(() => gate.opened));
    expect(await outcome(leased)).toBe("pending");
    expect(store.calls.release).toBe(0);
    gate.open();
    expect(await outcome(leased)).toEqual({ value: undefined });
    expect(store.calls.release).toBe(1);
  });

  test("is repeated by renewals if its answer never comes", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const kept = await one.tenure.acquire("b");
    one.store.hooks.release = down;
    await one.tenure.withLease("a", () => undefined);
    expect(await two.tenure.tryAcquire("a")).toBeUndefined();
    await clock.advance(2 * RENEW_EVERY_MS);
    expect((await two.tenure.tryAcquire("a"))?.token).toBe(2n);
    expect(kept.check()).toBe(1n);
  });

  test("does not hide the error of the work", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.release = () => Promise.reject(new Error("a failed release"));
    const failing = tenure.withLease("a", () => Promise.reject(new Error("the work failed")));
    await expect(failing).rejects.toThrow("the work failed");
  });
});
