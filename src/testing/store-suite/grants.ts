// Grants: one holder at a time (S4), increasing tokens (S1), and the same answer to the same
// attempt.

import { type Bench, expect, expectTrue } from "./harness.ts";

export const grants: Record<string, (bench: Bench) => Promise<void>> = {
  "a granted resource is busy for every other attempt, which learns the holder": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const two = await bench.session(await bench.store(), "two");
    await one.take("r");
    expect(
      await two.ask("r"),
      { kind: "busy", holderId: "holder of one" },
      "a held resource is busy",
    );
    expect(
      (await one.ask("r")).kind,
      "busy",
      "a second attempt of the same session is busy too: no re-entry",
    );
  },

  "S1: tokens strictly increase over release, expiry, revocation and the end of a session": async (
    bench,
  ) => {
    const store = await bench.store();
    const tokens: bigint[] = [];
    const one = await bench.shortSession(store, "one");
    tokens.push(await one.take("r"));
    await one.release("r", tokens[0] ?? 0n);
    tokens.push(await one.take("r"));
    await bench.expire(store);
    const two = await bench.session(store, "two");
    tokens.push(await two.take("r"));
    await store.revoke({ resource: "r", token: tokens.at(-1) ?? 0n, limitMs: 1_000 });
    const three = await bench.session(store, "three");
    tokens.push(await three.take("r"));
    await three.end();
    const four = await bench.session(await bench.store(), "four");
    tokens.push(await four.take("r"));
    const rising = tokens.every(
      (token, index) => index === 0 || token > (tokens[index - 1] ?? token),
    );
    expectTrue(
      rising && (tokens[0] ?? 0n) > 0n,
      `tokens must be above 0 and increase with every grant, got ${tokens}`,
    );
  },

  "S4: of many concurrent requests exactly one is granted": async (bench) => {
    const stores = await Promise.all([bench.store(), bench.store(), bench.store(), bench.store()]);
    const clients = await Promise.all(
      stores.map((store, index) => bench.session(store, `s${index}`)),
    );
    for (let round = 0; round < 10; round += 1) {
      const asked = clients.flatMap((client) => [
        client.ask(`race ${round}`),
        client.ask(`race ${round}`),
      ]);
      const granted = (await Promise.all(asked)).filter((outcome) => outcome.kind === "granted");
      expect(granted.length, 1, `round ${round}: exactly one grant`);
    }
  },

  "S4: a resource is busy until its session expires by the store's clock, and then free": async (
    bench,
  ) => {
    const store = await bench.store();
    const two = await bench.session(store, "two", bench.ttlMs * 10);
    const sentAt = bench.harness.now();
    const one = await bench.shortSession(store, "one");
    const first = await one.take("r");
    await bench.harness.sleep(bench.ttlMs / 3);
    const early = await two.ask("r");
    // On a busy machine the ttl may have passed already.
    const isWithin = bench.harness.now() - sentAt < bench.ttlMs;
    if (isWithin) expect(early.kind, "busy", "still within the ttl");
    await bench.expire(store);
    const next = early.kind === "granted" ? early.token : await two.take("r");
    expectTrue(next > first, "after the ttl the next holder has a larger token");
  },

  "S3: a lease does not end earlier than its ttl after the confirming request was sent": async (
    bench,
  ) => {
    const store = await bench.store();
    const two = await bench.session(await bench.store(), "two", bench.ttlMs * 4);
    const sentAt = bench.harness.now();
    const one = await bench.shortSession(store, "one");
    await one.take("r");
    for (;;) {
      const outcome = await two.ask("r");
      if (outcome.kind === "granted") break;
      await bench.harness.sleep(1);
    }
    const heldMs = bench.harness.now() - sentAt;
    expectTrue(
      heldMs >= one.ttlMs,
      `granted to another ${heldMs} ms after sending, the ttl was ${one.ttlMs} ms`,
    );
  },

  "S1, L3: a repeated attempt gets the same grant, so a lost answer can be recovered": async (
    bench,
  ) => {
    const one = await bench.session(await bench.store(), "one");
    const attempt = one.newAttempt();
    const first = await one.take("r", { attempt });
    expect(await one.take("r", { attempt }), first, "the same attempt, the same token");
    expect((await one.holder("r"))?.token, first, "and the resource is held once");
  },

  "S5: a repeated request for a grant that has ended grants nothing": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const attempt = one.newAttempt();
    const token = await one.take("r", { attempt });
    await one.release("r", token);
    expect(
      (await one.ask("r", { attempt })).kind,
      "ended",
      "a late duplicate must not create a grant that its holder does not know of",
    );
    expect(await one.holder("r"), undefined, "the resource stays free");
  },

  "an expired or ended session is granted nothing": async (bench) => {
    const store = await bench.store();
    const one = await bench.shortSession(store, "one");
    await bench.expire(store);
    expect((await one.ask("r")).kind, "gone", "an expired session");
    const stranger = await bench.session(store, "two");
    await stranger.end();
    expect((await stranger.ask("r")).kind, "gone", "an ended session");
  },

  "names that differ in one byte are different resources": async (bench) => {
    const one = await bench.session(await bench.store(), "one");
    const names = [
      "a",
      "A",
      "a/",
      "a/b",
      "a b",
      "a\u00e9",
      "ae\u0301",
      "a'; DROP TABLE lease; --",
      'a"',
      "a%",
      "a_",
      "a{b}",
    ];
    names.push("\u{1f512}", "a\n", "a\\", "../a", ".", "x".repeat(512));
    for (const name of names) await one.take(name);
    for (const name of names) {
      expect(
        (await one.ask(name)).kind,
        "busy",
        `"${name.slice(0, 20)}" is held under exactly its own name`,
      );
    }
  },
};
