// Tokens after the backend has lost data. Afterwards the next token is higher than every earlier
// one, a holder whose lease is gone learns of it from its next renewal, and a waiter is served.

import { higher } from "../../core/era.ts";
import type { Store } from "../../stores/contract.ts";
import { type Bench, type Client, expectTrue, LIMIT_MS } from "./harness.ts";

const ROUNDS = 5;
const TRIES_MAX = 40;

export async function tokensAfter(
  bench: Bench,
  prepare: () => Promise<() => Promise<void>>,
): Promise<void> {
  const store = await bench.store();
  const one = await bench.session(store, "one");
  const early = await one.take("early");
  await one.release("early", early);
  const forget = await prepare();
  let highest = early;
  for (let round = 0; round < ROUNDS; round += 1) {
    const token = await one.take("late");
    await one.release("late", token);
    highest = higher(highest, token);
  }
  const held = await one.take("held");
  highest = higher(highest, held);
  await forget();
  const fresh = await bench.store();
  const two = await bench.session(fresh, "two");
  for (const resource of ["early", "late", "never seen"]) {
    const token = await two.take(resource);
    expectTrue(token > highest, `S1: the token of "${resource}" is above every earlier one`);
  }
  await expectHolderKnows(one, fresh, held);
  expectTrue((await takeOver(bench, two)) > held, "S1: a waiter is served, with a higher token");
}

/**
 * The lease either still exists or is reported as gone by the next renewal. A renewal that fails
 * confirms nothing, so it is acceptable too.
 */
async function expectHolderKnows(one: Client, fresh: Store, held: bigint): Promise<void> {
  const read = { resource: "held", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  const exists = (await fresh.read(read)).holder?.token === held;
  const renewal = await one.renew().catch(() => undefined);
  if (exists || renewal === undefined || renewal.kind === "gone") return;
  const isReported = renewal.gone.some(
    ({ resource, token }) => resource === "held" && token === held,
  );
  expectTrue(isReported, "the renewal reports that the lease is gone");
}

/** Waits for the lease of a holder that has stopped renewing. */
async function takeOver(bench: Bench, two: Client): Promise<bigint> {
  const attempt = two.newAttempt();
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const outcome = await two.ask("held", { attempt, queue: true });
    if (outcome.kind === "granted") return outcome.token;
    await bench.harness.sleep(bench.ttlMs / 2);
    await two.renew();
  }
  throw new Error("the lease of a holder that is gone was never granted again");
}
