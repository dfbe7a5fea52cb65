// What must survive restarts, manual deletion, tokens above 2^53, and requests whose answer is
// lost, late or repeated.

import type { Store } from "../../stores/contract.ts";
import { type Bench, expect, expectTrue } from "./harness.ts";

type Skip = (reason: string) => never;

export const durability: Record<string, (bench: Bench, skip: Skip) => Promise<void>> = {
  "S1: tokens do not decrease over a restart of the store": async (bench, skip) => {
    const { restart } = bench.harness;
    if (restart === undefined)
      return skip("this backend is part of the process and cannot be restarted");
    const one = await bench.session(await bench.store(), "one");
    let before = 0n;
    for (let round = 0; round < 5; round += 1) {
      before = await one.take("r");
      await one.release("r", before);
    }
    await restart();
    const two = await bench.session(await bench.store(), "two");
    expectTrue((await two.take("r")) > before, "the counter continued");
  },

  "S4: a lease that was held before a restart is not granted to another before its ttl has passed":
    async (bench, skip) => {
      const { restart } = bench.harness;
      if (restart === undefined)
        return skip("this backend is part of the process and cannot be restarted");
      const one = await bench.session(await bench.store(), "one", bench.ttlMs * 4);
      const token = await one.take("r");
      await restart();
      const store = await bench.store();
      const two = await bench.session(store, "two", bench.ttlMs * 20);
      expect((await two.ask("r")).kind, "busy", "the holder may still be alive");
      await bench.expire(store, bench.ttlMs * 4);
      expectTrue((await two.take("r")) > token, "and after the ttl it is free");
    },

  "S1: tokens do not decrease when the data of a resource is deleted by hand": async (
    bench,
    skip,
  ) => {
    const { deleteRows } = bench.harness;
    if (deleteRows === undefined)
      return skip("the data of this backend cannot be deleted from outside");
    const one = await bench.session(await bench.store(), "one");
    let before = 0n;
    for (let round = 0; round < 5; round += 1) {
      before = await one.take("r");
      await one.release("r", before);
    }
    await deleteRows("r");
    expectTrue((await one.take("r")) > before, "the next token is larger although the row is gone");
  },

  "S1: tokens above 2^53 stay exact": async (bench, skip) => {
    const { setToken } = bench.harness;
    if (setToken === undefined) return skip("the token of this backend cannot be set from outside");
    const start = 2n ** 53n + 1n;
    await setToken("r", start);
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const token = await one.take("r");
    expect(token, start + 1n, "the next token, exactly");
    expect((await one.holder("r"))?.token, token, "read back exactly");
    expect(await one.release("r", token - 1n), "notHeld", "and compared exactly");
    expect(
      (await store.revoke({ resource: "r", token: token + 1n, limitMs: 1_000 })).kind,
      "notHeld",
      "a higher token does not match either",
    );
    expect(await one.release("r", token), "released", "the right one releases");
    expect(await one.take("r"), token + 1n, "and the counter continues");
  },

  "S7: requests to a closed store fail, and report that nothing was applied": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const token = await one.take("r");
    await store.close();
    const requests: [string, () => Promise<unknown>][] = [
      ["grant", () => one.ask("x")],
      ["renew", () => one.renew()],
      ["release", () => one.release("r", token)],
      ["read", () => one.holder("r")],
    ];
    for (const [name, request] of requests) {
      const error = await request().then(
        () => undefined,
        (reason: unknown) => reason as { code?: string; applied?: string },
      );
      expect(error?.code, "STORE_UNAVAILABLE", `${name} on a closed store`);
      expect(error?.applied, "no", `${name} was not applied`);
    }
    const other = await bench.session(await bench.store(), "other");
    expect((await other.ask("r")).kind, "busy", "closing a client releases nothing");
  },
};

/**
 * Requests that were applied although their answer was lost, and requests that arrive twice or
 * late.
 */
export const ambiguity: Record<string, (bench: Bench) => Promise<void>> = {
  "S4: a grant whose answer was lost is found again by its attempt": async (bench) => {
    const one = await bench.session(await bench.store(), "one", bench.ttlMs * 20);
    const attempt = one.newAttempt();
    await forgetAnswer(one.ask("r", { attempt }));
    const before = (await one.holder("r"))?.token;
    const token = await one.take("r", { attempt });
    expect(token, before, "the grant whose answer was lost");
    const again = await bench.session(await bench.store(), "two");
    expect((await again.ask("r")).kind, "busy", "granted once");
  },

  "S5: a request that arrives twice has the same effect as one": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const attempt = one.newAttempt();
    const [first, second] = await Promise.all([
      one.ask("r", { attempt }),
      one.ask("r", { attempt }),
    ]);
    expect(first, second, "both copies of a grant get the same answer");
    const token = await one.take("r", { attempt });
    const released = await Promise.all([one.release("r", token), one.release("r", token)]);
    expect(released.sort(), ["notHeld", "released"], "only one copy of a release has an effect");
    const renewed = await Promise.all([one.renew(), one.renew()]);
    expect(
      renewed.map((outcome) => outcome.kind).sort(),
      ["renewed", "renewed"],
      "both copies of a renewal succeed",
    );
  },

  "S5: late requests of a former holder change nothing": async (bench) => {
    const store = await bench.store();
    const one = await bench.shortSession(store, "one");
    const attempt = one.newAttempt();
    const old = await one.take("r", { attempt });
    await bench.expire(store);
    const two = await bench.session(store, "two");
    const token = await two.take("r");
    const late: [string, (from: Store) => Promise<unknown>][] = [
      ["renewal", () => one.renew([{ resource: "r", attempt }])],
      ["release", () => one.release("r", old)],
      ["withdrawal", () => one.withdraw("r", attempt)],
      ["grant", () => one.ask("r", { attempt })],
      ["end of session", () => one.end()],
    ];
    for (const [name, send] of late) {
      await send(store);
      const holder = await two.holder("r");
      expect(
        [holder?.holderId, holder?.token],
        ["holder of two", token],
        `after a late ${name} the successor still holds`,
      );
    }
    expect((await two.renew()).kind, "renewed", "and it can renew");
  },
};

async function forgetAnswer(request: Promise<unknown>): Promise<void> {
  await request;
}
