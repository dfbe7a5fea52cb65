// Waiting: waiters wake up when they can take the resource (L1, L2), in order if the store keeps a
// queue, and are never blocked by dead waiters.

import type { Store } from "../../stores/contract.ts";
import { type Bench, type Client, expect, expectTrue } from "./harness.ts";

async function expectWoken(bench: Bench, holder: Store, waiter: Store): Promise<void> {
  const one = await bench.session(holder, "one", bench.ttlMs * 20);
  const two = await bench.session(waiter, "two", bench.ttlMs * 20);
  const token = await one.take("r");
  const attempt = await two.queue("r");
  await bench.harness.sleep(20);
  const from = bench.harness.now();
  await one.release("r", token);
  const got = await two.granted("r", attempt);
  expectTrue(
    got > token && bench.harness.now() - from <= bench.ttlMs,
    "the waiter is granted the resource long before a ttl could have ended",
  );
}

export const waiting: Record<string, (bench: Bench) => Promise<void>> = {
  "L2: a release wakes the waiter of another client": async (bench) => {
    await expectWoken(bench, await bench.store(), await bench.store());
  },

  "L2: a release wakes a waiter that shares the client": async (bench) => {
    const store = await bench.store();
    await expectWoken(bench, store, store);
  },

  "L1: after a crash the waiter wakes up when the ttl of the dead session has passed": async (
    bench,
  ) => {
    const store = await bench.store();
    const two = await bench.session(await bench.store(), "two", bench.ttlMs * 20);
    const one = await bench.shortSession(store, "one");
    const token = await one.take("r");
    const attempt = await two.queue("r");
    await bench.expire(store);
    expectTrue(
      (await two.granted("r", attempt)) > token,
      "the holder did not renew, so the waiter holds",
    );
  },

  "a withdrawn waiter does not block the next one": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one", bench.ttlMs * 20);
    const token = await one.take("r");
    const quitter = await bench.session(await bench.store(), "quitter", bench.ttlMs * 20);
    const given = await quitter.queue("r");
    const next = await bench.session(await bench.store(), "next", bench.ttlMs * 20);
    const attempt = await next.queue("r");
    await quitter.withdraw("r", given);
    await one.release("r", token);
    expectTrue((await next.granted("r", attempt)) > token, "the next waiter holds");
  },
};

/** For stores that guarantee an order. */
export const order: Record<string, (bench: Bench) => Promise<void>> = {
  "waiters are served in the order of their requests": async (bench) => {
    const long = bench.ttlMs * 50;
    const one = await bench.session(await bench.store(), "one", long);
    const first = await one.take("r");
    const served: string[] = [];
    const waiters: Promise<void>[] = [];
    for (const name of ["a", "b", "c", "d", "e"]) {
      const client = await bench.session(await bench.store(), name, long);
      waiters.push(recordServed(client, await client.queue("r"), served));
    }
    await one.release("r", first);
    for (let turn = 0; turn < 5; turn += 1) await bench.harness.sleep(20);
    await Promise.all(waiters);
    expect(served.join(""), "abcde", "in order of arrival");
  },

  "a new request does not overtake queued waiters": async (bench) => {
    const long = bench.ttlMs * 50;
    const one = await bench.session(await bench.store(), "one", long);
    const token = await one.take("r");
    const waiter = await bench.session(await bench.store(), "waiter", long);
    const attempt = await waiter.queue("r");
    await one.release("r", token);
    expect((await one.ask("r")).kind, "busy", "free, but the waiter is first");
    await waiter.take("r", { attempt, queue: true });
  },

  "a first waiter whose session has expired is skipped at once": async (bench) => {
    const store = await bench.store();
    const dead = await bench.shortSession(store, "dead");
    const long = bench.ttlMs * 50;
    const one = await bench.session(await bench.store(), "one", long);
    const token = await one.take("r");
    await dead.ask("r", { queue: true });
    const next = await bench.session(await bench.store(), "next", long);
    const attempt = next.newAttempt();
    await next.ask("r", { attempt, queue: true });
    await bench.expire(store);
    await one.release("r", token);
    expectTrue(
      (await next.take("r", { attempt, queue: true })) > token,
      "the expired waiter is skipped",
    );
  },
};

async function recordServed(client: Client, attempt: string, served: string[]): Promise<void> {
  const token = await client.granted("r", attempt);
  served.push(client.sessionId);
  await client.release("r", token);
}
