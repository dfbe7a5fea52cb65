// Goal: a caller can tell every error by its code, from any copy of the package, and finds the facts to decide with.
// Method: one of each kind against a table; a second copy of the module loaded beside the first.
import { describe, expect, test, vi } from "vitest";
import {
  AcquireTimeoutError,
  ClosedError,
  DrainingError,
  type ErrorCode,
  GuardUnavailableError,
  InvalidArgumentError,
  isTenureError,
  LeaseInDoubtError,
  LeaseLostError,
  StaleTokenError,
  StoreUnavailableError,
  StoreUnusableError,
  TenureError,
  TokenRegressionError,
  UntrustedTokenError,
} from "./errors.ts";
import { TimingError } from "./timing.ts";

const resource = "settlement";
const confirmedAt = new Date("2026-01-02T03:04:05.678Z");
const tokens = { resource, offered: 4n, highest: 7n };

const kinds: [TenureError, ErrorCode, boolean, string][] = [
  [
    new AcquireTimeoutError({ resource, waitMs: 5 }),
    "ACQUIRE_TIMEOUT",
    true,
    "stayed busy for 5 ms",
  ],
  [
    new LeaseLostError({ resource, reason: "revoked", token: 9n, confirmedAt }),
    "LEASE_LOST",
    false,
    "(token 9) is lost: revoked. Last confirmed at 2026-01-02T03:04:05.678Z",
  ],
  [new LeaseInDoubtError({ resource }), "LEASE_IN_DOUBT", true, "Await lease.confirmed()"],
  [new DrainingError({ resource }), "DRAINING", false, "is draining"],
  [new StaleTokenError(tokens), "STALE_TOKEN", false, "Token 4 for"],
  [new UntrustedTokenError("expired", "too late"), "UNTRUSTED_TOKEN", false, "too late"],
  [
    new StoreUnavailableError("no answer", { applied: "unknown", resource }),
    "STORE_UNAVAILABLE",
    true,
    "no answer",
  ],
  [
    new GuardUnavailableError({ resource, detail: "no answer", applied: "no" }),
    "GUARD_UNAVAILABLE",
    true,
    "cannot be used for now: no answer.",
  ],
  [
    new TimingError("short", { inequality: "safety", shortByMs: 1, mend: { marginMs: 2 } }),
    "TIMING",
    false,
    "short",
  ],
  [new TokenRegressionError(tokens), "TOKEN_REGRESSION", false, "offered token 4 "],
  [new InvalidArgumentError("wrong", { resource }), "INVALID_ARGUMENT", false, "wrong"],
  [new StoreUnusableError("broken"), "STORE_UNUSABLE", false, "broken"],
  [new ClosedError("This Tenure"), "CLOSED", false, "This Tenure is closed. Connect again"],
];

describe("every kind", () => {
  test.each(kinds.map((kind) => [kind[1], ...kind] as const))(
    "%s has its code, its class name and says what happened",
    (_, error, code, retryable, message) => {
      expect(error).toBeInstanceOf(TenureError);
      expect(error).toBeInstanceOf(Error);
      expect(error).toMatchObject({ code, retryable, name: error.constructor.name });
      expect(error.message).toContain(message);
      expect(isTenureError(error)).toBe(true);
      for (const [, other] of kinds) expect(isTenureError(error, other)).toBe(other === code);
    },
  );

  test("no two kinds share a code", () => {
    expect(new Set(kinds.map(([, code]) => code)).size).toBe(kinds.length);
  });
});

describe("facts", () => {
  test("a lost lease tells reason, token, last confirmation and the detail", () => {
    const cause = new Error("socket closed");
    const facts = {
      resource,
      reason: "expired",
      token: 9n,
      confirmedAt,
      detail: "out of time",
      cause,
    } as const;
    const error = new LeaseLostError(facts);
    expect(error).toMatchObject({ resource, reason: "expired", token: 9n, confirmedAt, cause });
    expect(error.message).toContain("is lost: out of time.");
  });

  test("a wait that ran out tells who held the resource, where that is known", () => {
    const error = new AcquireTimeoutError({ resource, waitMs: 5, heldBy: "host/1" });
    expect(error).toMatchObject({ waitMs: 5, heldBy: "host/1", resource });
    expect(error.message).toContain("(held by host/1)");
    expect(new AcquireTimeoutError({ resource, waitMs: 5 }).message).not.toContain("held by");
  });

  test("a stale and a regressed token tell both numbers", () => {
    for (const error of [new StaleTokenError(tokens), new TokenRegressionError(tokens)]) {
      expect(error).toMatchObject(tokens);
    }
  });

  test("an unavailable store tells whether the request may have been applied", () => {
    expect(new StoreUnavailableError("x", { applied: "no" }).applied).toBe("no");
    expect(new StoreUnavailableError("x", { applied: "unknown" }).applied).toBe("unknown");
  });

  test("the cause is kept where there is one, and absent where there is none", () => {
    const cause = new Error("disk full");
    for (const error of [
      new StoreUnusableError("x", { cause }),
      new InvalidArgumentError("x", { cause }),
      new LeaseInDoubtError({ resource, cause }),
      new StoreUnavailableError("x", { applied: "no", cause }),
    ]) {
      expect(error.cause).toBe(cause);
    }
    expect("cause" in new StoreUnusableError("x")).toBe(false);
  });
});

describe("isTenureError", () => {
  test("it knows an error of another copy of the package, where instanceof does not", async () => {
    vi.resetModules();
    const copy = await import("./errors.ts");
    expect(copy.TenureError).not.toBe(TenureError);
    const foreign = new copy.DrainingError({ resource });
    expect(foreign instanceof TenureError).toBe(false);
    expect(isTenureError(foreign)).toBe(true);
    expect(isTenureError(foreign, "DRAINING")).toBe(true);
    expect(isTenureError(foreign, "CLOSED")).toBe(false);
    expect(copy.isTenureError(new ClosedError("x"), "CLOSED")).toBe(true);
  });

  test("nothing else passes, also not what merely has a code", () => {
    const lookalike = Object.assign(new Error("x"), { code: "CLOSED" });
    for (const other of [lookalike, new Error("x"), null, undefined, "CLOSED", 1, {}]) {
      expect(isTenureError(other)).toBe(false);
      expect(isTenureError(other, "CLOSED")).toBe(false);
    }
  });
});
