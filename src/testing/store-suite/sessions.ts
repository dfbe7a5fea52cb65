// Sessions: one renewal extends all leases, an expired session is never revived, and renewals
// report revoked leases.

import { StoreUnavailableError } from "../../core/errors.ts";
import { type Bench, type Client, expect, expectTrue, LIMIT_MS } from "./harness.ts";

/**
 * Renews a session that has expired. A server that ends a session may close its connection while
 * the request is in flight. The outcome is then unknown, and the holder asks again.
 */
async function renewLate(client: Client): Promise<string> {
  const outcome = await client.renew().catch((error: unknown) => {
    if (error instanceof StoreUnavailableError) return client.renew();
    throw error;
  });
  return outcome.kind;
}

export const sessions: Record<string, (bench: Bench) => Promise<void>> = {
  "L3: renewals keep every lease of the session beyond its ttl": async (bench) => {
    const store = await bench.store();
    const ttlMs = 2 * bench.ttlMs;
    const one = await bench.session(store, "one", ttlMs);
    const names = Array.from({ length: 50 }, (_, index) => `r${index}`);
    await Promise.all(names.map((name) => one.take(name)));
    // Often, so that a busy machine can be late by most of the ttl.
    for (let beat = 0; beat < 5; beat += 1) {
      await bench.harness.sleep(ttlMs / 4);
      expect((await one.renew()).kind, "renewed", `renewal ${beat}`);
    }
    const two = await bench.session(await bench.store(), "two");
    expect((await one.renew()).kind, "renewed", "the last renewal");
    // Concurrently, so that all are answered before the session expires.
    const answers = await Promise.all(names.map((name) => two.ask(name)));
    for (const [index, answer] of answers.entries())
      expect(answer.kind, "busy", `${names[index]} is still held`);
  },

  "a renewal answers with the granted ttl, and reports no lease that is still held": async (
    bench,
  ) => {
    const one = await bench.session(await bench.store(), "one");
    await one.take("r");
    const { kind, ttlMs, gone } = { ttlMs: 0, gone: [], ...(await one.renew()) };
    expect({ kind, ttlMs, gone }, { kind: "renewed", ttlMs: one.ttlMs, gone: [] }, "nothing gone");
  },

  "S5: a late renewal never revives an expired session, even if its leases are still free": async (
    bench,
  ) => {
    const store = await bench.store();
    const one = await bench.shortSession(store, "one");
    await one.take("r");
    await bench.expire(store);
    expect(await renewLate(one), "gone", "too late");
    const two = await bench.session(store, "two");
    await two.take("r");
    expect((await one.renew()).kind, "gone", "and after the takeover");
    expect((await two.holder("r"))?.holderId, "holder of two", "the successor is unaffected");
  },

  "S4: when one lease of an expired session is taken, none of its leases can be renewed": async (
    bench,
  ) => {
    const store = await bench.store();
    const one = await bench.shortSession(store, "one");
    await one.take("a");
    await one.take("b");
    await bench.expire(store);
    const two = await bench.session(store, "two");
    await two.take("a");
    expect(await renewLate(one), "gone", "the old holder's next renewal must fail");
    await two.take("b");
  },

  "S5: a revoked lease is free at once, and renewals report only that lease": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const a = await one.take("a");
    await one.take("b");
    const outcome = await (await bench.store()).revoke({
      resource: "a",
      token: a,
      limitMs: LIMIT_MS,
    });
    expect(outcome.kind, "revoked", "a third party may end it");
    const two = await bench.session(store, "two");
    await two.take("a");
    const { kind, gone } = { gone: [], ...(await one.renew()) };
    expect(
      { kind, gone },
      { kind: "renewed", gone: [{ resource: "a", token: a }] },
      "a is gone, b is not",
    );
    expect((await two.ask("b")).kind, "busy", "b is still held");
  },

  "S5: a revocation with an older token changes nothing": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const old = await one.take("r");
    await one.release("r", old);
    const current = await one.take("r");
    expect(
      (await store.revoke({ resource: "r", token: old, limitMs: LIMIT_MS })).kind,
      "notHeld",
      "too old",
    );
    expect((await one.holder("r"))?.token, current, "the newer grant is unaffected");
    expect(
      (await store.revoke({ resource: "free", token: 1n, limitMs: LIMIT_MS })).kind,
      "notHeld",
      "nothing to revoke",
    );
  },

  "ending a session frees all its leases and affects no other session": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const other = await bench.session(store, "other");
    await one.take("a");
    await one.take("b");
    await other.take("c");
    await one.end();
    await one.end();
    const two = await bench.session(store, "two");
    await two.take("a");
    await two.take("b");
    expect((await two.ask("c")).kind, "busy", "the lease of the other session is unaffected");
    expect((await one.renew()).kind, "gone", "an ended session stays ended");
  },

  "S4: two sessions of one holder compete like two holders": async (bench) => {
    const store = await bench.store();
    const first = await bench.session(store, "one");
    const twin = await bench.session(store, "one again");
    const token = await first.take("r");
    expect((await twin.ask("r")).kind, "busy", "the same process, another session");
    expect(
      await twin.release("r", token),
      "notHeld",
      "and it cannot release a lease of the other session",
    );
  },

  "one request renews a thousand leases": async (bench) => {
    const one = await bench.session(await bench.store(), "one", bench.ttlMs * 20);
    await Promise.all(Array.from({ length: 1_000 }, (_, index) => one.take(`many/${index}`)));
    const outcome = await one.renew();
    expectTrue(
      outcome.kind === "renewed" && outcome.gone.length === 0,
      "one request renews a thousand leases",
    );
  },
};
