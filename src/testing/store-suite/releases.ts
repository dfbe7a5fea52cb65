// Releasing and withdrawing: only what is one's own, only the term that is meant (S5).

import { type Bench, expect, expectTrue } from "./harness.ts";

export const releases: Record<string, (bench: Bench) => Promise<void>> = {
  "a release frees the resource at once, and only the first one counts": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const token = await one.take("r");
    expect(await one.release("r", token), "released", "the holder may release");
    expect(await one.release("r", token), "notHeld", "the second time there is nothing to release");
    const two = await bench.session(await bench.store(), "two");
    expectTrue((await two.take("r")) > token, "free for the next, with a larger token");
  },

  "S5: a late release of an older term does not free the newer one of the same session": async (
    bench,
  ) => {
    const one = await bench.session(await bench.store(), "one");
    const old = await one.take("r");
    await one.release("r", old);
    const current = await one.take("r");
    expect(await one.release("r", old), "notHeld", "the older token matches nothing");
    expect((await one.holder("r"))?.token, current, "the newer grant stands");
  },

  "S5: a late release of an expired holder does not free its successor": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const old = await one.take("r");
    await bench.expire(store);
    const two = await bench.session(store, "two");
    const current = await two.take("r");
    expect(await one.release("r", old), "notHeld", "the old holder's release comes too late");
    expect(
      await one.release("r", current),
      "notHeld",
      "nor can it release with the successor's token",
    );
    expect((await two.holder("r"))?.token, current, "the successor stands");
  },

  "a release after the session's end is no error": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const token = await one.take("r");
    await bench.expire(store);
    expect(await one.release("r", token), "notHeld", "expired meanwhile");
    expect(await one.release("never held", 7n), "notHeld", "never held at all");
  },

  "S5: a withdrawal gives back what its attempt got, and nothing else": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const lost = one.newAttempt();
    await one.take("r", { attempt: lost });
    await one.withdraw("r", lost);
    const current = await one.take("r");
    await one.withdraw("r", lost);
    await one.withdraw("never asked for", one.newAttempt());
    expect(
      (await one.holder("r"))?.token,
      current,
      "a second withdrawal does not touch the newer grant",
    );
    const two = await bench.session(store, "two");
    const name = (await bench.session(store, "three")).newAttempt();
    await two.withdraw("r", name);
    expect((await one.holder("r"))?.token, current, "nor does a stranger's");
  },

  "S5: a renewal gives back the attempts it names, also those whose grant arrived late": async (
    bench,
  ) => {
    const one = await bench.session(await bench.store(), "one");
    const kept = await one.take("kept");
    const delayed = one.newAttempt();
    await one.withdraw("r", delayed);
    await one.take("r", { attempt: delayed });
    const outcome = await one.renew([{ resource: "r", attempt: delayed }]);
    expect(outcome.kind, "renewed", "renewed");
    expect(await one.holder("r"), undefined, "nobody knows of that grant, so nobody may hold it");
    expect((await one.holder("kept"))?.token, kept, "other leases stay");
  },
};
