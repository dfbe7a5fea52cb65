// Releases and withdrawals affect only the session's own leases, and only the given term (S5).

import { type Bench, expect, expectTrue } from "./harness.ts";

export const releases: Record<string, (bench: Bench) => Promise<void>> = {
  "a release frees the resource at once, and a second release is a no-op": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const token = await one.take("r");
    expect(await one.release("r", token), "released", "the holder may release");
    expect(await one.release("r", token), "notHeld", "the second time nothing is held");
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
    expect((await one.holder("r"))?.token, current, "the newer grant is unaffected");
  },

  "S5: a late release of an expired holder does not free its successor": async (bench) => {
    const store = await bench.store();
    const one = await bench.shortSession(store, "one");
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
    expect((await two.holder("r"))?.token, current, "the successor still holds");
  },

  "a release from an expired session is a no-op": async (bench) => {
    const store = await bench.store();
    const one = await bench.shortSession(store, "one");
    const token = await one.take("r");
    await bench.expire(store);
    expect(await one.release("r", token), "notHeld", "the session has expired");
    expect(await one.release("never held", 7n), "notHeld", "never held at all");
  },

  "S5: a withdrawal undoes its own attempt and nothing else": async (bench) => {
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
    expect((await one.holder("r"))?.token, current, "nor does that of another session");
  },

  "S5: a renewal undoes the attempts that it names, even if their grant arrived late": async (
    bench,
  ) => {
    const one = await bench.session(await bench.store(), "one");
    const kept = await one.take("kept");
    const delayed = one.newAttempt();
    await one.withdraw("r", delayed);
    await one.take("r", { attempt: delayed });
    const outcome = await one.renew([{ resource: "r", attempt: delayed }]);
    expect(outcome.kind, "renewed", "renewed");
    expect(
      await one.holder("r"),
      undefined,
      "the holder does not know of that grant, so it is undone",
    );
    expect((await one.holder("kept"))?.token, kept, "other leases stay");
  },
};
