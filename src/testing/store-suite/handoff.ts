// Handoff: freeing a resource grants it to the next waiter in the same atomic step, and the waiter
// learns of it without asking, or from its next renewal. stores/queue-policy.ts states the rule.

import type { LeaseRef, RenewOutcome } from "../../stores/contract.ts";
import { type Bench, type Client, expect, expectTrue, LIMIT_MS } from "./harness.ts";

/** A holder of "r" and a waiter for it, each with its own client of the backend. */
async function holderAndWaiter(
  bench: Bench,
): Promise<{ one: Client; two: Client; token: bigint; attempt: string }> {
  const one = await bench.session(await bench.store(), "one");
  const two = await bench.session(await bench.store(), "two");
  const token = await one.take("r");
  return { one, two, token, attempt: await two.queue("r") };
}

/** Fails unless "r" is held by the session with a token above `former`. Returns the token. */
async function expectHeldBy(client: Client, former: bigint, rule: string): Promise<bigint> {
  const holder = await client.holder("r");
  expect(holder?.holderId, `holder of ${client.sessionId}`, rule);
  const token = holder?.token ?? 0n;
  expectTrue(token > former, "S1: the token of a handoff is above the former one");
  return token;
}

async function renewed(
  client: Client,
  accepted: readonly LeaseRef[] = [],
): Promise<Extract<RenewOutcome, { kind: "renewed" }>> {
  const outcome = await client.renew([], [], accepted);
  if (outcome.kind === "renewed") return outcome;
  throw new Error(`${client.sessionId} expected a renewal, got ${outcome.kind}`);
}

export const handoff: Record<string, (bench: Bench) => Promise<void>> = {
  "L2: a release grants the resource to the waiter in the same step": async (bench) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    await one.release("r", token);
    const next = await expectHeldBy(two, token, "the waiter holds when the release returns");
    expect(await two.granted("r", attempt), next, "the waiter is notified of its token");
    expect((await one.ask("r")).kind, "busy", "the resource was never free");
  },

  "L2: a revocation grants the resource to the waiter and notifies the former holder": async (
    bench,
  ) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    const revoked = await two.store.revoke({ resource: "r", token, limitMs: LIMIT_MS });
    expect(revoked.kind, "revoked", "the holder is revoked");
    await expectHeldBy(two, token, "the waiter holds");
    await two.granted("r", attempt);
    const lost = await one.reported("its lease was revoked", ({ losses }) => losses[0]);
    expect(lost, { resource: "r", token }, "the former holder is notified");
  },

  "L4: the end of a session grants each of its resources to the next waiter": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const two = await bench.session(await bench.store(), "two");
    const names = ["a", "b", "c"];
    for (const name of names) await one.take(name);
    const attempts = new Map<string, string>();
    for (const name of names) attempts.set(name, await two.queue(name));
    await one.end();
    for (const [name, attempt] of attempts) await two.granted(name, attempt);
  },

  "a withdrawn grant goes to the next waiter": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const two = await bench.session(await bench.store(), "two");
    const given = one.newAttempt();
    const token = await one.take("r", { attempt: given });
    const attempt = await two.queue("r");
    await one.withdraw("r", given);
    expectTrue((await two.granted("r", attempt)) > token, "the waiter holds");
  },

  "a waiter that gave up is not granted the resource": async (bench) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    const three = await bench.session(await bench.store(), "three");
    const next = await three.queue("r");
    await two.withdraw("r", attempt);
    await one.release("r", token);
    await three.granted("r", next);
    await expectHeldBy(three, token, "the waiter that stayed holds");
    expect(two.events.grants, [], "the other one was never granted it");
  },

  "S4: a waiter whose session ended is not granted the resource": async (bench) => {
    const { one, two, token } = await holderAndWaiter(bench);
    const three = await bench.session(await bench.store(), "three");
    const next = await three.queue("r");
    await two.end();
    await one.release("r", token);
    await three.granted("r", next);
    await expectHeldBy(three, token, "the waiter that is alive holds");
  },

  "renewals report a grant until it is accepted": async (bench) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    expect((await renewed(two)).granted, [], "nothing is granted yet");
    await one.release("r", token);
    const next = await expectHeldBy(two, token, "the waiter holds");
    const grant = { resource: "r", token: next, attempt };
    for (let round = 0; round < 2; round += 1)
      expect((await renewed(two)).granted, [grant], "reported: it is not accepted");
    const other = { resource: "r", token: next + 1n };
    expect((await renewed(two, [other])).granted, [grant], "another token accepts nothing");
    expect((await renewed(two, [grant])).granted, [], "accepted");
    expect((await renewed(two)).granted, [], "and not reported again");
    expect((await two.holder("r"))?.token, next, "it is still held");
  },

  "a released grant is not reported any more": async (bench) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    await one.release("r", token);
    await two.release("r", await two.granted("r", attempt));
    expect((await renewed(two)).granted, [], "it has ended");
  },

  "a holder is notified when someone waits, and renewals report it": async (bench) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    const ref = { resource: "r", token };
    const wish = await one.reported("its lease is wanted", ({ wishes }) => wishes[0]);
    expect(wish, ref, "the holder is notified");
    expect((await renewed(one)).wanted, [ref], "the renewal reports it");
    await two.withdraw("r", attempt);
    expect((await renewed(one)).wanted, [], "nobody waits any more");
  },

  "renewals count the attempts of the session that wait": async (bench) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    expect((await renewed(two)).waiting, 1, "one attempt");
    await two.queue("r");
    expect((await renewed(two)).waiting, 2, "two attempts");
    await one.release("r", token);
    expect((await renewed(two)).waiting, 1, "one is granted");
    await two.release("r", await two.granted("r", attempt));
    expect((await renewed(two)).waiting, 0, "both are granted");
    expect((await renewed(one)).waiting, 0, "the other session waits for nothing");
  },

  "a repeated request keeps its place in the queue": async (bench) => {
    const { one, two, token, attempt } = await holderAndWaiter(bench);
    const three = await bench.session(await bench.store(), "three");
    await three.queue("r");
    expect((await two.ask("r", { attempt, queue: true })).kind, "queued", "still queued");
    expect((await renewed(two)).waiting, 1, "once");
    await one.release("r", token);
    await expectHeldBy(two, token, "the first waiter holds");
    const again = await two.ask("r", { attempt, queue: true });
    expect(
      again.kind,
      "granted",
      "a request repeated after the handoff is answered with the grant",
    );
  },

  "the attempts of several sessions are served in the order of their requests": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const [a, b] = [
      await bench.session(await bench.store(), "a"),
      await bench.session(await bench.store(), "b"),
    ];
    let token = await one.take("r");
    let holder = one;
    const waiting: { client: Client; attempt: string }[] = [];
    for (const client of [a, a, b, a, b])
      waiting.push({ client, attempt: await client.queue("r") });
    for (const { client, attempt } of waiting) {
      await holder.release("r", token);
      token = await client.granted("r", attempt);
      holder = client;
    }
  },

  "a release hands off to the preferred holder, if it waits": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const two = await bench.session(await bench.store(), "two");
    const three = await bench.session(await bench.store(), "three");
    const token = await one.take("r");
    // On some stores, only attempts that name a rank give way to others.
    const attempt = await two.queue("r", 0);
    const preferred = await three.queue("r", 0);
    await one.release("r", token, "holder of three");
    const second = await three.granted("r", preferred);
    await three.release("r", second, "holder of nobody");
    expectTrue((await two.granted("r", attempt)) > second, "the other waiter is next");
  },

  "waiters with a lower rank come first": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const two = await bench.session(await bench.store(), "two");
    let token = await one.take("r");
    const [last, second, first, third] = [
      await two.queue("r", 2),
      await two.queue("r", 1),
      await two.queue("r", 0),
      await two.queue("r", 1),
    ];
    await one.release("r", token);
    for (const attempt of [first, second, third, last]) {
      token = await two.granted("r", attempt);
      await two.release("r", token);
    }
  },

  "a request that follows a release of the same session finds the resource free": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const token = await one.take("r");
    const released = one.release("r", token);
    expectTrue((await one.take("r")) > token, "granted, although the release was not awaited");
    expect(await released, "released", "the release was answered");
  },
};

/** For stores that skip a waiter whose session has not been renewed recently. */
export const quietWaiters: Record<string, (bench: Bench) => Promise<void>> = {
  "L1: a quiet waiter is skipped and keeps its place": async (bench) => {
    const { one, quiet, next, token } = await quietAndNext(bench);
    await one.release("r", token);
    const second = await next.client.granted("r", next.attempt);
    const last = await bench.session(await bench.store(), "last");
    await last.queue("r");
    await quiet.client.renew();
    await next.client.release("r", second);
    await quiet.client.granted("r", quiet.attempt);
  },

  "if every waiter is quiet, the first one that renews is granted the resource": async (bench) => {
    const { one, quiet, next, token } = await quietAndNext(bench);
    await next.client.withdraw("r", next.attempt);
    await one.release("r", token);
    expect(await one.holder("r"), undefined, "the resource is free");
    const outcome = await quiet.client.renew();
    expect(outcome.kind, "renewed", "the session is alive");
    expectTrue((await quiet.client.granted("r", quiet.attempt)) > token, "the waiter holds");
  },

  "if every waiter is quiet, a new request is granted the resource": async (bench) => {
    const { one, next, token } = await quietAndNext(bench);
    await next.client.withdraw("r", next.attempt);
    await one.release("r", token);
    expectTrue((await one.take("r")) > token, "granted");
  },
};

/** A holder of "r", a quiet waiter for it, and one after that which is not quiet. */
async function quietAndNext(bench: Bench): Promise<{
  one: Client;
  token: bigint;
  quiet: { client: Client; attempt: string };
  next: { client: Client; attempt: string };
}> {
  const quietAfterMs = bench.ttlMs / 2;
  const one = await bench.session(await bench.store(), "one");
  const token = await one.take("r");
  const quiet = await bench.session(await bench.store(), "quiet", bench.longMs, quietAfterMs);
  const quietAttempt = await quiet.queue("r");
  await bench.harness.sleep(quietAfterMs + one.store.guarantees.expiryLagMs + 1);
  const next = await bench.session(await bench.store(), "next", bench.longMs);
  const nextAttempt = await next.queue("r");
  return {
    one,
    token,
    quiet: { client: quiet, attempt: quietAttempt },
    next: { client: next, attempt: nextAttempt },
  };
}
