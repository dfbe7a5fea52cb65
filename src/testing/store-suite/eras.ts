// Tokens after the backend has forgotten: each way in which it can lose what it knew is a test of its own. After each, the next
// token is higher than every earlier one, a holder whose lease is gone learns so from its next renewal, and a waiter is served.

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
  const one = await bench.session(store, "one", bench.longMs);
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
  const two = await bench.session(fresh, "two", bench.longMs);
  for (const resource of ["early", "late", "never seen"]) {
    const token = await two.take(resource);
    expectTrue(token > highest, `S1: the token of "${resource}" is above every earlier one`);
  }
  await expectHolderKnows(one, fresh, held);
  expectTrue((await served(bench, two)) > held, "S1: a waiter is served, with a higher token");
}

/** Either the lease is still there, or the next renewal says that it is gone; a renewal that fails confirms nothing. */
async function expectHolderKnows(one: Client, fresh: Store, held: bigint): Promise<void> {
  const read = { resource: "held", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  const isThere = (await fresh.read(read)).holder?.token === held;
  const renewal = await one.renew().catch(() => undefined);
  if (isThere || renewal === undefined || renewal.kind === "gone") return;
  const isTold = renewal.gone.some(({ resource, token }) => resource === "held" && token === held);
  expectTrue(isTold, "the renewal says that the lease is gone");
}

/** Takes over from the holder, which does not renew any more. */
async function served(bench: Bench, two: Client): Promise<bigint> {
  const attempt = two.newAttempt();
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const outcome = await two.ask("held", { attempt, queue: true });
    if (outcome.kind === "granted") return outcome.token;
    await bench.harness.sleep(bench.ttlMs / 2);
    await two.renew();
  }
  throw new Error("nobody was granted the lease of a holder that is gone");
}
