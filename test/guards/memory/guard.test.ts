// Goal: the rule that all guards share (S2), in its shortest form. Method: tokens in every relevant
// order, with a check of what was written; a real lease on the memory store is the holder.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { connect } from "../../../src/connect.ts";
import { type Guard, memoryGuard, type TokenSource } from "../../../src/guards/memory/index.ts";
import { StaleTokenError } from "../../../src/index.ts";

const LIMIT = 2n ** 127n;
const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });

describe("the memory guard", () => {
  test("S2: admits the first token and equal or larger ones, and rejects lower ones", () => {
    const guard = memoryGuard();
    const written: bigint[] = [];
    const write = (token: bigint): number => guard.write(source(token), () => written.push(token));
    expect(write(5n)).toBe(1);
    expect(write(5n)).toBe(2);
    expect(write(7n)).toBe(3);
    expect(() => write(6n)).toThrow(StaleTokenError);
    expect(written).toEqual([5n, 5n, 7n]);
  });

  test("S2: the error has both tokens, the resource and a code", async () => {
    const guard: Guard = memoryGuard();
    await guard.advance(source(9n));
    const facts = { code: "STALE_TOKEN", offered: 8n, highest: 9n, resource: "ledger" };
    expect(() => guard.advance(source(8n))).toThrow(expect.objectContaining(facts));
  });

  test("S2: after an advance the former holder is rejected before the new one has written", () => {
    const guard = memoryGuard();
    guard.write(source(1n), () => undefined);
    guard.advance(source(2n));
    let ran = false;
    expect(() => guard.write(source(1n), () => (ran = true))).toThrow(StaleTokenError);
    expect(ran).toBe(false);
    expect(guard.highest("ledger")).toBe(2n);
  });

  test("S2: a write that throws keeps the highest token, because memory has no rollback", () => {
    const guard = memoryGuard();
    const failing = (): never => {
      throw new Error("half done");
    };
    expect(() => guard.write(source(3n), failing)).toThrow("half done");
    expect(guard.highest("ledger")).toBe(3n);
  });

  test("S2: a nested write cannot lower the highest token", () => {
    const guard = memoryGuard();
    guard.write(source(3n), () => guard.write(source(4n), () => undefined));
    expect(guard.highest("ledger")).toBe(4n);
  });

  test("S2: two resources in one guard have independent tokens", () => {
    const guard = memoryGuard();
    guard.advance(source(9n, "left"));
    guard.advance(source(1n, "right"));
    expect([guard.highest("left"), guard.highest("right")]).toEqual([9n, 1n]);
    expect(guard.highest("neither")).toBeUndefined();
  });

  test("S2: over any sequence of tokens, the admitted ones never decrease", () => {
    const tokens = fc.array(fc.bigInt({ min: 1n, max: LIMIT - 1n }), { maxLength: 50 });
    fc.assert(
      fc.property(tokens, (offered) => {
        const guard = memoryGuard();
        let highest = 0n;
        for (const token of offered) {
          const refused = caught(() => guard.write(source(token), () => undefined)) !== undefined;
          expect(refused).toBe(token < highest);
          if (!refused) highest = token;
        }
      }),
    );
  });
});

describe("invalid input to a guard", () => {
  const refused = (bad: unknown): void => {
    const guard = memoryGuard();
    expect(() => guard.advance(bad as TokenSource)).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
    expect(guard.highest("ledger")).toBeUndefined();
  };

  test.each([1.5, 1, -1n, 0n, LIMIT, "1", undefined, null])(
    "a token of %s is rejected",
    (token) => {
      refused({ resource: "ledger", token });
    },
  );

  test("a missing source and a bad resource name are rejected", () => {
    refused(undefined);
    refused("ledger");
    refused({ resource: "", token: 1n });
    refused({ resource: "a\0b", token: 1n });
  });

  test("an async function is rejected before it is called", () => {
    const guard = memoryGuard();
    let ran = false;
    const write = async (): Promise<void> => {
      ran = true;
    };
    expect(() => guard.write(source(1n), write)).toThrow("must be synchronous");
    expect(ran).toBe(false);
    expect(guard.highest("ledger")).toBeUndefined();
  });

  test("a plain function that returns a promise is rejected, and its rejection is handled", () => {
    const guard = memoryGuard();
    const write = (): Promise<never> => Promise.reject(new Error("late"));
    expect(() => guard.write(source(1n), write)).toThrow("must be synchronous");
    expect(() => guard.write(source(1n), "x" as unknown as () => void)).toThrow("function");
  });
});

describe("a lease as the source", () => {
  test("S6: the check of a lost lease rejects the write, although its token is the highest", async () => {
    await using tenure = await connect("memory:");
    const guard = memoryGuard();
    const lease = await tenure.acquire("ledger");
    expect(guard.write(lease, () => "written")).toBe("written");
    await tenure.revoke("ledger");
    await lease.release();
    expect(() => guard.write(lease, () => "late")).toThrow(
      expect.objectContaining({ code: "LEASE_LOST" }),
    );
    expect(guard.highest("ledger")).toBe(lease.token);
  });

  test("S2: the bare token of a lost lease is admitted until a newer token was seen", async () => {
    await using tenure = await connect("memory:");
    const guard = memoryGuard();
    const first = await tenure.acquire("ledger");
    await first.release();
    guard.write({ resource: first.resource, token: first.token }, () => undefined);
    const second = await tenure.acquire("ledger");
    guard.advance(second);
    const late = { resource: first.resource, token: first.token };
    expect(() => guard.write(late, () => undefined)).toThrow(StaleTokenError);
  });
});

function caught(work: () => unknown): unknown {
  try {
    work();
    return undefined;
  } catch (error) {
    return error;
  }
}
