// Goal: a write whose answer is lost counts exactly once, and what cannot be found out is reported
// as unknown (S7). Requests cost as few round trips as possible. Method: a mock with switchable
// faults, which logs every write that it applies.

import { describe, expect, test } from "vitest";
import { recordWorld, settled } from "../../../test/support/stores/record-world.ts";

describe("a write whose answer is lost", () => {
  test("S4: it was applied: the nonce proves it, and nothing is written twice", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    mock.faults.lostReplies = 1;
    const token = await one.take("r");
    expect(mock.log.filter(({ key }) => key === "lease/r")).toHaveLength(1);
    expect((await one.holder("r"))?.token).toBe(token);
  });

  test("S4: it was not applied: it is repeated, and the late copy has no effect", async () => {
    for (const fault of ["lostWrites", "delayedWrites"] as const) {
      const { mock, start } = recordWorld();
      const one = await start("one");
      mock.faults[fault] = 1;
      const token = await one.take("r");
      expect(mock.deliver()).toBe(0);
      expect(mock.log.filter(({ key }) => key === "lease/r")).toHaveLength(1);
      expect((await one.holder("r"))?.token).toBe(token);
    }
  });

  test("S4: a late copy that arrives before the repetition is recognised by its nonce", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    mock.faults.delayedWrites = 1;
    let writes = 0;
    mock.before = (kind) => {
      writes += kind === "write" ? 1 : 0;
      if (kind === "write" && writes === 2) expect(mock.deliver()).toBe(1);
    };
    const token = await one.take("r");
    expect(mock.log.filter(({ key }) => key === "lease/r")).toHaveLength(1);
    expect((await one.holder("r"))?.token).toBe(token);
  });

  test("S7: if the record cannot be read back in time, the outcome is unknown", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one");
    await one.release("r", await one.take("r"));
    mock.faults.lostReplies = 1;
    mock.faults.failedReads = 1_000;
    const attempt = one.newAttempt();
    const asked = settled(one.ask("r", { attempt }));
    await clock.advance(5_000);
    expect(await asked).toMatchObject({ error: { code: "STORE_UNAVAILABLE", applied: "unknown" } });
    mock.faults.failedReads = 0;
    expect((await one.ask("r", { attempt })).kind).toBe("granted");
    expect(mock.log.filter(({ key }) => key === "lease/r")).toHaveLength(3);
  });

  test("S7: a write that was rejected is reported as not applied", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    mock.faults.rejectedWrites = 1;
    expect(await settled(one.ask("r"))).toMatchObject({ error: { applied: "no" } });
    expect(mock.records.has("lease/r")).toBe(false);
  });

  test("S7: after a lost answer, a rejection of the repetition proves nothing", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one");
    mock.faults.delayedWrites = 1;
    mock.before = (kind) => {
      if (kind === "write" && mock.faults.delayedWrites === 0) mock.faults.rejectedWrites = 1;
    };
    const asked = settled(one.ask("r"));
    await clock.advance(5_000);
    expect(await asked).toMatchObject({ error: { applied: "unknown" } });
    expect(mock.deliver()).toBe(1);
  });

  test("S5: a renewal withdraws a grant that was applied after its caller gave up", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one");
    mock.faults.delayedWrites = 1_000;
    const attempt = one.newAttempt();
    const asked = settled(one.ask("r", { attempt }));
    await clock.advance(5_000);
    expect(await asked).toMatchObject({ error: { applied: "unknown" } });
    mock.faults.delayedWrites = 0;
    expect(mock.deliver()).toBe(1);
    expect(await one.holder("r")).toBeDefined();
    await one.renew([{ resource: "r", attempt }]);
    expect(await one.holder("r")).toBeUndefined();
  });

  test("a release is confirmed although another process has changed the record since", async () => {
    const { mock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    mock.faults.lostReplies = 1;
    mock.before = async (kind, key) => {
      if (kind !== "read" || key !== "lease/r") return;
      mock.before = undefined;
      await two.take("r");
    };
    expect(await one.release("r", token)).toBe("released");
    expect((await one.holder("r"))?.holderId).toBe("holder of two");
  });

  test("L3: a renewal is found again, and a stale read does not undo that", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    mock.faults.lostReplies = 1;
    expect((await one.renew()).kind).toBe("renewed");
    expect(mock.fields("session/one").beat).toBe(1);
    mock.faults.lostReplies = 1;
    mock.faults.staleReads = 1;
    await one.renew();
    expect(mock.fields("session/one").beat).toBe(2);
  });

  test("S4: a stale read after a lost answer does not cause a second grant", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    mock.faults.lostReplies = 1;
    mock.faults.staleReads = 2;
    const token = await one.take("r");
    expect((await one.holder("r"))?.token).toBe(token);
    expect(mock.log.filter(({ key }) => key === "lease/r")).toHaveLength(1);
  });

  test("S7: an error that a client did not classify counts as unknown", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one");
    mock.before = (kind) => {
      if (kind === "write") throw new Error("a bug in the client");
    };
    const asked = settled(one.ask("r"));
    await clock.advance(5_000);
    expect(await asked).toMatchObject({ error: { applied: "unknown" } });
  });
});

describe("nonces", () => {
  test("S5: no two states of a record have the same body, so no version repeats", async () => {
    const { mock, start } = recordWorld({ digests: true });
    const [one, two] = [await start("one"), await start("two")];
    await one.take("r");
    for (let round = 0; round < 3; round += 1) await two.withdraw("r", await two.queue("r"));
    const bodies = mock.log.map(({ body }) => body);
    expect(new Set(bodies).size).toBe(bodies.length);
  });

  test("S5: a write that is based on an earlier, otherwise equal state conflicts", async () => {
    const { mock, start } = recordWorld({ digests: true });
    const [one, two, three] = [await start("one"), await start("two"), await start("three")];
    await one.take("r");
    const attempt = three.newAttempt();
    await three.queue("r");
    // The same attempt enters and leaves: the queue is as before, and the version is not.
    const before = mock.records.get("lease/r");
    await two.ask("r", { attempt, queue: true });
    await two.withdraw("r", attempt);
    const after = mock.records.get("lease/r");
    const withoutNonce = (body = "") => ({ ...JSON.parse(body), nonce: undefined });
    expect(withoutNonce(after?.body)).toEqual(withoutNonce(before?.body));
    expect(after?.version).not.toBe(before?.version);
  });
});

describe("round trips", () => {
  test("acquiring and releasing take one write each if the record is known", async () => {
    const { start, count } = recordWorld();
    const one = await start("one");
    let token = 0n;
    const take = async (): Promise<void> => {
      token = await one.take("r");
    };
    expect(await count(take)).toEqual({ reads: 1, writes: 1 });
    expect(await count(() => one.release("r", token))).toEqual({ reads: 0, writes: 1 });
    expect(await count(take)).toEqual({ reads: 0, writes: 1 });
    expect(await count(() => one.release("r", token))).toEqual({ reads: 0, writes: 1 });
  });

  test("opening and renewing a session take one write each, however many leases it has", async () => {
    const { start, count } = recordWorld();
    const one = await start("one");
    for (let index = 0; index < 50; index += 1) await one.take(`r${index}`);
    expect(await count(() => one.renew())).toEqual({ reads: 0, writes: 1 });
    expect(await count(() => start("two"))).toEqual({ reads: 0, writes: 1 });
  });

  test("a conflict that contains the current record saves a read", async () => {
    const { start, count } = recordWorld({ conflictRecords: true });
    const [one, two] = [await start("one"), await start("two")];
    await one.release("r", await one.take("r"));
    await two.release("r", await two.take("r"));
    expect(await count(() => one.take("r"))).toEqual({ reads: 0, writes: 2 });
  });

  test("S4: an outdated cache never decides that a resource is busy", async () => {
    const { start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    expect((await two.ask("r")).kind).toBe("busy");
    await one.release("r", token);
    expect((await two.ask("r")).kind).toBe("granted");
  });
});
