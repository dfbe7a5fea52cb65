// Goal: malformed records, written by a hostile or buggy program, never crash, block or mislead a
// process, and each affects only its own resource or session (S7, S8). Method: replace records with
// junk, and send every kind of request. Vitest fails on an unhandled rejection.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { recordWorld, settled, TTL_MS } from "../../../test/support/stores/record-world.ts";
import { decodeLease, decodeSession, readNonce } from "./records.ts";

const deep = `${"[".repeat(6_000)}${"]".repeat(6_000)}`;
const JUNK = [
  "",
  "junk",
  "null",
  "7",
  "[]",
  "{}",
  '{"v":2}',
  '{"v":1,"token":"-1"}',
  '{"v":1,"token":7e300}',
  '{"v":1,"token":"7","held":7}',
  '{"v":1,"token":"7","held":{"session":7}}',
  '{"v":1,"held":{"session":"s","attempt":"a","holderId":"h","ttlMs":5}}',
  '{"v":1,"token":"7","held":{"session":"s","attempt":"a","holderId":"h","ttlMs":-5}}',
  `{"v":1,"token":"7","held":${deep}}`,
  deep,
  "\u{1f512}\ufffd",
];

describe("a malformed lease record", () => {
  test.each(JUNK)("S7, S8: %# grants nothing and affects only its own resource", async (junk) => {
    const { mock, clock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const sound = await one.take("x/b");
    mock.put("lease/x/a", junk);
    const unusable = { error: { code: "STORE_UNUSABLE" } };
    expect(await settled(two.ask("x/a"))).toMatchObject(unusable);
    expect(await settled(two.ask("x/a", { queue: true }))).toMatchObject(unusable);
    expect(await settled(two.holder("x/a"))).toMatchObject(unusable);
    expect(
      await settled(two.store.revoke({ resource: "x/a", token: 7n, limitMs: 1_000 })),
    ).toMatchObject(unusable);
    expect(mock.records.get("lease/x/a")?.body).toBe(junk);
    const page = await two.store.list({ prefix: "x/", limit: 10, limitMs: 1_000 });
    expect(page.leases.map(({ resource }) => resource)).toEqual(["x/b"]);
    const withdrawn = [{ resource: "x/a", attempt: two.newAttempt() }];
    expect((await two.renew(withdrawn)).kind).toBe("renewed");
    await clock.advance(1);
    expect(await one.release("x/b", sound)).toBe("released");
  });

  test("S8: a waiter survives junk in place of the record, and a renewal reports the loss", async () => {
    for (const push of [false, true]) {
      const { mock, clock, start } = recordWorld({ push });
      const [one, two] = [await start("one"), await start("two")];
      await one.take("r");
      await two.queue("r");
      mock.put("lease/r", "junk");
      await clock.advance(3_000);
      expect((await two.renew()).kind).toBe("renewed");
      expect((await one.renew()).kind).toBe("renewed");
      await one.end().catch(() => undefined);
    }
  });

  test("S8: junk entries in a queue and malformed details of a holder are tolerated", async () => {
    const { mock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r", { value: { a: 1 } });
    const attempt = await two.queue("r");
    const { held, queue, ...rest } = mock.fields("lease/r") as {
      held: object;
      queue: object[];
    };
    const junk = [
      7,
      null,
      "x",
      [],
      {},
      { session: 1 },
      { session: "s", attempt: "a", ttlMs: 1e99 },
    ];
    mock.put(
      "lease/r",
      JSON.stringify({
        ...rest,
        held: { ...held, holderId: 7, value: deep, grantedAtMs: "x", rank: "y" },
        queue: [...junk, ...queue],
      }),
    );
    const holder = await two.holder("r");
    expect(holder).toMatchObject({ holderId: "(unreadable record)", token });
    expect(holder?.value).toBeUndefined();
    await one.release("r", token);
    expect(await two.granted("r", attempt)).toBeGreaterThan(token);
  });
});

test("S8: a record that grants the attempt to another session is not reported as a grant", async () => {
  const { mock, clock, start } = recordWorld({ push: true });
  const [one, two] = [await start("one"), await start("two")];
  await one.take("r");
  const attempt = await two.queue("r");
  const { held, ...rest } = mock.fields("lease/r") as { held: object };
  mock.put("lease/r", JSON.stringify({ ...rest, held: { ...held, attempt } }));
  await clock.advance(100);
  expect(two.events.grants).toEqual([]);
  expect((await two.renew()).kind).toBe("renewed");
});

describe("a malformed session record", () => {
  test.each(JUNK)(
    "S4, S8: %# ends the session of its owner, and a contender waits a full ttl",
    async (junk) => {
      const { mock, clock, start } = recordWorld();
      const [one, two] = [await start("one"), await start("two", { ttlMs: 10 * TTL_MS })];
      await one.take("r");
      mock.put("session/one", junk);
      expect((await two.ask("r")).kind).toBe("busy");
      await clock.advance(TTL_MS - 1);
      expect((await two.ask("r")).kind).toBe("busy");
      expect((await one.renew()).kind).toBe("gone");
      await clock.advance(1);
      expect((await two.ask("r")).kind).toBe("granted");
    },
  );

  test("S8: malformed notices are skipped and do not fail a renewal", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    const token = await one.take("r");
    const notices = [7, null, [], ["r"], ["r", 7], [7, "7"], ["r", "x"], ["r", String(token)]];
    const body = { ...mock.fields("session/one"), revoked: notices, wanted: "junk" };
    mock.put("session/one", JSON.stringify(body));
    expect(await one.renew()).toMatchObject({ kind: "renewed", gone: [{ resource: "r", token }] });
  });

  test("S8: a lease that names a junk session is reclaimed after the ttl in its record", async () => {
    const { mock, clock, start } = recordWorld();
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    const held = { session: "../x", attempt: "a", holderId: "h", rank: 0, ttlMs: 3_000 };
    mock.put("lease/r", JSON.stringify({ v: 1, token: "7", held, queue: [] }));
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(3_000);
    expect((await two.ask("r")).kind).toBe("granted");
  });
});

test("S8: no text makes a decoder throw anything but StoreUnusableError", () => {
  const check = (text: string): void => {
    expect(() => decodeSession(text)).not.toThrow();
    expect(() => readNonce(text)).not.toThrow();
    try {
      decodeLease(text);
    } catch (error) {
      expect(error).toMatchObject({ code: "STORE_UNUSABLE" });
    }
  };
  for (const text of JUNK) check(text);
  fc.assert(fc.property(fc.string(), check));
  fc.assert(fc.property(fc.json(), check));
});

test("S8: a body that is too large for the backend is rejected before it is sent", async () => {
  const { start, count } = recordWorld({ facts: { maxBodyBytes: 1_000 } });
  const one = await start("one");
  const writes = await count(async () => {
    const asked = await settled(one.ask("r", { value: "x".repeat(1_000) }));
    expect(asked).toMatchObject({ error: { code: "STORE_UNAVAILABLE", applied: "no" } });
  });
  expect(writes).toEqual({ reads: 1, writes: 0 });
});
