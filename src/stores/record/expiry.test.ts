// Goal: no lease is taken from a session that could still be alive, and a session that has ended
// stays ended (S3, S4, S5). Method: processes on one mock, where the holder may have a clock of its
// own that stands still.

import { describe, expect, test } from "vitest";
import { recordWorld, settled, TTL_MS } from "../../../test/support/stores/record-world.ts";
import { ManualClock } from "../../testing/index.ts";

describe("expiry is observed", () => {
  test("S4: a session that is first seen now is alive for a full ttl, however old it is", async () => {
    const { clock, start } = recordWorld();
    const one = await start("one");
    await one.take("r");
    await clock.advance(20 * TTL_MS);
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(TTL_MS - 1);
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(1);
    expect((await two.ask("r")).kind).toBe("granted");
  });

  test("S4: a renewed beat must be observed for a full ttl again", async () => {
    const { clock, start } = recordWorld();
    const one = await start("one");
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    await one.take("r");
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(1);
    await one.renew();
    await clock.advance(TTL_MS - 2);
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(TTL_MS - 1);
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(1);
    expect((await two.ask("r")).kind).toBe("granted");
  });

  test("S4: a renewal that precedes the write that ends the session keeps the lease", async () => {
    const { mock, clock, start } = recordWorld();
    const still = new ManualClock();
    const one = await start("one", { clock: still });
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    const token = await one.take("r");
    await two.ask("r");
    await clock.advance(TTL_MS);
    mock.before = async (kind, key) => {
      if (kind !== "write" || key !== "session/one") return;
      mock.before = undefined;
      expect((await one.renew()).kind).toBe("renewed");
    };
    expect((await two.ask("r")).kind).toBe("busy");
    expect(mock.before).toBeUndefined();
    expect((await two.holder("r"))?.token).toBe(token);
    await clock.advance(TTL_MS - 1);
    expect((await two.ask("r")).kind).toBe("busy");
  });

  test("a notice in the record of a session does not extend its life", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one");
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    const token = await one.take("r");
    await two.queue("r");
    await clock.advance(TTL_MS / 2);
    expect(mock.fields("session/one").wanted).toEqual([["r", String(token)]]);
    const three = await start("three", { ttlMs: 10 * TTL_MS });
    const { kind } = await three.store.revoke({ resource: "x", token: 1n, limitMs: 1_000 });
    expect(kind).toBe("notHeld");
    await clock.advance(TTL_MS / 2 + 100);
    expect((await two.holder("r"))?.holderId).toBe("holder of two");
  });

  test("S4: a lease whose session has lost its record is not taken before a full ttl", async () => {
    const { mock, clock, start } = recordWorld();
    const still = new ManualClock();
    const one = await start("one", { clock: still });
    await one.take("r");
    mock.records.delete("session/one");
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(TTL_MS - 1);
    expect((await two.ask("r")).kind).toBe("busy");
    expect((await one.renew()).kind).toBe("gone");
    await clock.advance(1);
    expect((await two.ask("r")).kind).toBe("granted");
  });

  test("S4: a stale read of a session does not end it", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one", { clock: new ManualClock() });
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    await one.take("r");
    await one.renew();
    mock.before = (kind, key) => {
      if (kind === "read" && key === "session/one") mock.faults.staleReads = 1;
    };
    expect((await two.ask("r")).kind).toBe("busy");
    await clock.advance(TTL_MS);
    const asked = settled(two.ask("r"));
    await clock.advance(5_000);
    expect(await asked).toMatchObject({ error: { applied: "no" } });
    mock.before = undefined;
    expect((await one.renew()).kind).toBe("renewed");
  });
});

describe("an expired session is ended before its lease is taken", () => {
  test("S5: the marker is written first, and each takes one conditional write", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one");
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    await one.take("r");
    await two.ask("r");
    await clock.advance(TTL_MS);
    const before = mock.log.length;
    await two.take("r");
    const writes = mock.log.slice(before).map(({ key, body }) => [key, JSON.parse(body)]);
    expect(writes).toMatchObject([
      ["session/one", { ended: true }],
      ["lease/r", { held: { session: "two" } }],
    ]);
  });

  test("S5: the renewal of a frozen holder that was taken over gets `gone`", async () => {
    const { clock, start } = recordWorld();
    const still = new ManualClock();
    const one = await start("one", { clock: still });
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    const old = await one.take("r");
    await two.queue("r");
    await clock.advance(2 * TTL_MS);
    expect((await two.holder("r"))?.holderId).toBe("holder of two");
    expect(await one.release("r", old)).toBe("notHeld");
    expect((await one.renew()).kind).toBe("gone");
    expect((await one.ask("other")).kind).toBe("gone");
    expect((await two.holder("r"))?.holderId).toBe("holder of two");
  });

  test("S4: a grant that an ended session wrote late does not keep the resource", async () => {
    const { mock, clock, start } = recordWorld();
    const still = new ManualClock();
    const one = await start("one", { clock: still });
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    await one.take("a");
    await two.ask("a");
    await clock.advance(TTL_MS);
    await two.take("a");
    // The frozen process does not know yet that its session has ended.
    await one.take("b");
    expect(mock.fields("lease/b").held).toMatchObject({ session: "one" });
    // A process that has seen the marker needs it no more.
    mock.records.delete("session/one");
    expect((await two.ask("b")).kind).toBe("granted");
  });

  test("S5: a session whose record went back to an older beat is gone", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    const older = mock.records.get("session/one")?.body ?? "";
    await one.renew();
    await one.renew();
    mock.put("session/one", older);
    expect((await one.renew()).kind).toBe("gone");
  });
});

describe("the clock of the backend as evidence", () => {
  const clockErrorMs = 500;

  test("with `clockErrorMs`, a session that is old enough has expired at first sight", async () => {
    const { mock, start } = recordWorld({}, { clockErrorMs });
    await (await start("one")).take("r");
    const two = await start("two");
    mock.ageMs = TTL_MS + clockErrorMs - 1;
    expect((await two.ask("r")).kind).toBe("busy");
    const three = await start("three");
    mock.ageMs = TTL_MS + clockErrorMs;
    expect((await three.ask("r")).kind).toBe("granted");
  });

  test("without `clockErrorMs`, the age of a record means nothing", async () => {
    const { mock, start } = recordWorld();
    await (await start("one")).take("r");
    const two = await start("two");
    mock.ageMs = 100 * TTL_MS;
    expect((await two.ask("r")).kind).toBe("busy");
  });
});
