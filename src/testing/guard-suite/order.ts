// The rule of guards (S2): admitted tokens never decrease, with several guards on one resource,
// with concurrent writers, and after a restart.

import { expect, expectTrue } from "../store-suite/harness.ts";
import { catchFailure, facts, type GuardTopic, RESOURCE } from "./harness.ts";

/** Values at the limits of doubles, 64-bit integers and 39-digit decimals. */
const LARGE = [2n ** 53n, 2n ** 63n, 2n ** 64n, 10n ** 38n, 2n ** 127n - 2n];

export const order: GuardTopic = {
  "S2: equal and larger tokens are admitted, lower ones rejected": async (bench) => {
    const guard = await bench.open();
    expect(await guard.highest(RESOURCE), undefined, "no token was seen before the first");
    await guard.write(facts(5n), "first");
    await guard.write(facts(5n), "same term");
    await guard.write(facts(7n), "next term");
    const late = await catchFailure(() => guard.write(facts(6n), "late"));
    expect(late?.code, "STALE_TOKEN", "a token below the highest is stale");
    expect(await bench.written(), ["first", "same term", "next term"], "what was admitted");
    expect(await guard.highest(RESOURCE), 7n, "the highest is the largest admitted");
  },

  "S2: a rejection reports the resource and both tokens, and changes nothing": async (bench) => {
    const guard = await bench.open();
    await guard.write(facts(9n), "kept");
    for (const act of [() => guard.write(facts(8n), "late"), () => guard.advance(facts(8n))]) {
      const { code, resource, offered, highest } = (await catchFailure(act)) ?? {};
      expect(
        { code, resource, offered, highest },
        { code: "STALE_TOKEN", resource: RESOURCE, offered: 8n, highest: 9n },
        "the caller learns what was offered and what has been seen",
      );
    }
    expect(await guard.highest(RESOURCE), 9n, "the highest is unchanged");
    expect(await bench.written(), ["kept"], "nothing was written");
  },

  "S2: after an advance the former holder is rejected, even before the first write": async (
    bench,
  ) => {
    const [older, newer] = [await bench.open(), await bench.open()];
    await older.write(facts(1n), "old");
    await newer.advance(facts(2n));
    const late = await catchFailure(() => older.write(facts(1n), "late"));
    expect(late?.code, "STALE_TOKEN", "rejected although the new holder has written nothing");
    expect(await bench.written(), ["old"], "nothing late was written");
  },

  "S2: an advance to a lower token is rejected, and to an equal one is a no-op": async (bench) => {
    const guard = await bench.open();
    await guard.advance(facts(4n));
    await guard.advance(facts(4n));
    expect((await catchFailure(() => guard.advance(facts(3n))))?.code, "STALE_TOKEN", "lower");
    expect(await guard.highest(RESOURCE), 4n, "the highest is unchanged");
    await guard.write(facts(4n), "of that term");
    expect(await bench.written(), ["of that term"], "an equal token writes");
  },

  "S2: tokens above 2^53 and up to 39 digits are compared exactly": async (bench) => {
    const guard = await bench.open();
    for (const [index, token] of LARGE.entries()) {
      const resource = `large ${index}`;
      await guard.advance(facts(token, resource));
      await guard.write(facts(token + 1n, resource), "one more");
      expect(await guard.highest(resource), token + 1n, `${token} + 1 comes back exactly`);
      const late = await catchFailure(() => guard.write(facts(token, resource), "one less"));
      expect(late?.code, "STALE_TOKEN", `${token} is below ${token + 1n}`);
      expect(await bench.written(resource), ["one more"], "only the larger one wrote");
    }
    // Compared as numbers, not as text: "10" would sort before "9".
    await guard.advance(facts(9n, "digits"));
    await guard.advance(facts(10n, "digits"));
    expect(await guard.highest("digits"), 10n, "10 is above 9");
  },

  "S2: two resources in one guard have independent tokens": async (bench) => {
    const guard = await bench.open();
    await guard.write(facts(9n, "left"), "left");
    await guard.write(facts(1n, "right"), "right");
    expect(await guard.highest("left"), 9n, "left");
    expect(await guard.highest("right"), 1n, "right");
    expect(await guard.highest("neither"), undefined, "neither");
    expect(await bench.written("right"), ["right"], "admitted by its own order");
  },

  "S2: resource names may contain quotes, semicolons and any script": async (bench) => {
    const guard = await bench.open();
    for (const name of NAMES) {
      await guard.write(facts(3n, name), "kept");
      const late = await catchFailure(() => guard.write(facts(2n, name), "late"));
      expect(late?.code, "STALE_TOKEN", `compared under ${name}`);
      expect(await guard.highest(name), 3n, `kept under ${name}`);
    }
    for (const name of NAMES) expect(await bench.written(name), ["kept"], `written under ${name}`);
  },

  "S2: admitted tokens never decrease with many concurrent writers": async (bench) => {
    const guards = await Promise.all(Array.from({ length: 4 }, () => bench.open()));
    const admitted: string[] = [];
    await Promise.all(
      guards.map(async (guard, writer) => {
        for (let round = 0; round < 12; round += 1) {
          // Tokens increase over the rounds, and the writers are a few tokens apart.
          const token = BigInt(1 + round * 2 + ((writer * 5) % 7));
          const text = `${token} by ${writer} in ${round}`;
          const failure = await catchFailure(() => guard.write(facts(token), text));
          if (failure === undefined) admitted.push(text);
          else expect(failure.code, "STALE_TOKEN", "a rejection is STALE_TOKEN and nothing else");
        }
      }),
    );
    const written = await bench.written();
    const tokens = written.map((text) => BigInt(text.split(" ", 1)[0] ?? ""));
    expectTrue(
      tokens.every((token, at) => at === 0 || token >= (tokens[at - 1] ?? 0n)),
      `by the resource's own order, tokens never fall: ${tokens.join(" ")}`,
    );
    expect([...written].sort(), admitted.sort(), "written is what was admitted, each once");
    expect(await guards[0]?.highest(RESOURCE), tokens.at(-1), "the last is the highest");
  },

  "S2: no write below a completed advance is admitted, even if both run concurrently": async (
    bench,
  ) => {
    const [holder, successor] = [await bench.open(), await bench.open()];
    let advanced = false;
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const writing = (async () => {
      for (let sent = 0; sent < 500; sent += 1) {
        const isAfterAdvance = advanced;
        const failure = await catchFailure(() => holder.write(facts(1n), String(sent)));
        if (failure !== undefined) return failure.code;
        expect(isAfterAdvance, false, "a write that began after the advance is never admitted");
        if (sent === 5) begin();
      }
      return "never rejected";
    })();
    await begun;
    await successor.advance(facts(2n));
    advanced = true;
    const atAdvance = await bench.written();
    expect(await writing, "STALE_TOKEN", "the former holder is rejected");
    expect(await bench.written(), atAdvance, "and nothing was written after the advance");
  },

  "S2: the highest survives a restart": async (bench, skip) => {
    const { restart } = bench;
    if (restart === undefined) return skip("this guard keeps its tokens in the process");
    const before = await bench.open();
    await before.write(facts(6n), "before");
    await before.advance(facts(2n ** 90n));
    await restart();
    const after = await bench.open();
    expect(await after.highest(RESOURCE), 2n ** 90n, "the advance is remembered");
    const late = await catchFailure(() => after.write(facts(2n ** 90n - 1n), "late"));
    expect(late?.code, "STALE_TOKEN", "and lower tokens are still rejected");
    expect(await bench.written(), ["before"], "nothing late was written");
  },

  "S2: a failed write is rolled back together with its token": async (bench, skip) => {
    if (!bench.rollsBack) return skip("this resource cannot undo a write");
    const guard = await bench.open();
    await guard.write(facts(5n), "kept");
    const failure = await catchFailure(() => guard.write(facts(9n), "half done", { fail: true }));
    expectTrue(failure !== undefined, "the caller gets its own error");
    expect(failure?.code === "STALE_TOKEN", false, "and it is not a rejection");
    expect(await guard.highest(RESOURCE), 5n, "the highest was rolled back with the write");
    await guard.write(facts(6n), "still admitted");
    expect(
      await bench.written(),
      ["kept", "still admitted"],
      "nothing of the failed write remains",
    );
  },
};

const NAMES = [
  `a'; DROP TABLE entry; --`,
  `"quoted"`,
  "semi;colon",
  "back\\slash",
  "$1 $$",
  "账本/ü",
];
