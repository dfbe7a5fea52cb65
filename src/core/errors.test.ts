// Goal: a caller can recognise every error by its code, from any copy of the package, and finds the
// facts it needs. Method: one error of each kind, compared with a table; a second copy of the
// module; type tests.
import { describe, expect, expectTypeOf, test, vi } from "vitest";
import {
  AcquireTimeoutError,
  ClosedError,
  DrainingError,
  type ErrorByCode,
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
} from "./errors.ts";
import { type Timing, TimingError } from "./timing.ts";
import { UntrustedTokenError } from "./untrusted-token.ts";

const resource = "settlement";
const confirmedAt = new Date("2026-01-02T03:04:05.678Z");
const tokens = { resource, offered: 4n, highest: 7n };

const kinds: [TenureError, ErrorCode, boolean, string][] = [
  [
    AcquireTimeoutError.from({ resource, waitMs: 5 }),
    "ACQUIRE_TIMEOUT",
    true,
    "stayed busy for 5 ms",
  ],
  [
    LeaseLostError.from({ resource, reason: "revoked", token: 9n, confirmedAt }),
    "LEASE_LOST",
    false,
    "(token 9) is lost: revoked. Last confirmed at 2026-01-02T03:04:05.678Z",
  ],
  [LeaseInDoubtError.from({ resource }), "LEASE_IN_DOUBT", true, "Await lease.confirmed()"],
  [DrainingError.from({ resource }), "DRAINING", false, "is draining"],
  [StaleTokenError.from(tokens), "STALE_TOKEN", false, "Token 4 for"],
  [
    new UntrustedTokenError("too late", { reason: "expired" }),
    "UNTRUSTED_TOKEN",
    false,
    "too late",
  ],
  [
    new StoreUnavailableError("no answer", { applied: "unknown", resource }),
    "STORE_UNAVAILABLE",
    true,
    "no answer",
  ],
  [
    GuardUnavailableError.from({ resource, detail: "no answer", applied: "no" }),
    "GUARD_UNAVAILABLE",
    true,
    "cannot be used for now: no answer.",
  ],
  [
    new TimingError("short", { rule: "safety", shortByMs: 1, fix: { marginMs: 2 } }),
    "TIMING",
    false,
    "short",
  ],
  [TokenRegressionError.from(tokens), "TOKEN_REGRESSION", false, "offered token 4 "],
  [new InvalidArgumentError("wrong", { resource }), "INVALID_ARGUMENT", false, "wrong"],
  [new StoreUnusableError("broken"), "STORE_UNUSABLE", false, "broken"],
  [
    ClosedError.from({ what: "This Tenure" }),
    "CLOSED",
    false,
    "This Tenure is closed. Connect again",
  ],
];

describe("every kind", () => {
  test.each(kinds.map((kind) => [kind[1], ...kind] as const))(
    "%s has its code, its class name and its message",
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
  test("LeaseLostError has the reason, the token, the last confirmation and the detail", () => {
    const cause = new Error("socket closed");
    const facts = {
      resource,
      reason: "expired",
      token: 9n,
      confirmedAt,
      detail: "out of time",
      cause,
    } as const;
    const error = LeaseLostError.from(facts);
    expect(error).toMatchObject({ resource, reason: "expired", token: 9n, confirmedAt, cause });
    expect(error.message).toContain("is lost: out of time.");
  });

  test("AcquireTimeoutError names the holder if it is known", () => {
    const error = AcquireTimeoutError.from({ resource, waitMs: 5, heldBy: "host/1" });
    expect(error).toMatchObject({ waitMs: 5, heldBy: "host/1", resource });
    expect(error.message).toContain("(held by host/1)");
    expect(AcquireTimeoutError.from({ resource, waitMs: 5 }).message).not.toContain("held by");
  });

  test("StaleTokenError and TokenRegressionError have both tokens", () => {
    for (const error of [StaleTokenError.from(tokens), TokenRegressionError.from(tokens)]) {
      expect(error).toMatchObject(tokens);
    }
  });

  test("StoreUnavailableError says whether the request may have been applied", () => {
    expect(new StoreUnavailableError("x", { applied: "no" }).applied).toBe("no");
    expect(new StoreUnavailableError("x", { applied: "unknown" }).applied).toBe("unknown");
  });

  test("an error has a cause only if one was given", () => {
    const cause = new Error("disk full");
    for (const error of [
      new StoreUnusableError("x", { cause }),
      new InvalidArgumentError("x", { cause }),
      LeaseInDoubtError.from({ resource, cause }),
      new StoreUnavailableError("x", { applied: "no", cause }),
    ]) {
      expect(error.cause).toBe(cause);
    }
    expect("cause" in new StoreUnusableError("x")).toBe(false);
  });
});

describe("isTenureError", () => {
  test("recognises an error of another copy of the package, unlike instanceof", async () => {
    vi.resetModules();
    const copy = await import("./errors.ts");
    expect(copy.TenureError).not.toBe(TenureError);
    const foreign = copy.DrainingError.from({ resource });
    expect(foreign instanceof TenureError).toBe(false);
    expect(isTenureError(foreign)).toBe(true);
    expect(isTenureError(foreign, "DRAINING")).toBe(true);
    expect(isTenureError(foreign, "CLOSED")).toBe(false);
    expect(copy.isTenureError(ClosedError.from({ what: "x" }), "CLOSED")).toBe(true);
  });

  test("rejects everything else, including an error that only has such a code", () => {
    const lookalike = Object.assign(new Error("x"), { code: "CLOSED" });
    for (const other of [lookalike, new Error("x"), null, undefined, "CLOSED", 1, {}]) {
      expect(isTenureError(other)).toBe(false);
      expect(isTenureError(other, "CLOSED")).toBe(false);
    }
  });

  test("with a code it narrows to the class of that code", () => {
    const error: unknown = StaleTokenError.from(tokens);
    expect(isTenureError(error, "STALE_TOKEN") && error.highest).toBe(7n);
    if (isTenureError(error, "STALE_TOKEN")) expectTypeOf(error).toEqualTypeOf<StaleTokenError>();
    if (isTenureError(error, "TIMING")) expectTypeOf(error.fix).toEqualTypeOf<Partial<Timing>>();
    if (isTenureError(error)) expectTypeOf(error).toEqualTypeOf<TenureError>();
    const eitherCode = "CLOSED" as "CLOSED" | "STALE_TOKEN";
    if (isTenureError(error, eitherCode))
      expectTypeOf(error).toEqualTypeOf<ClosedError | StaleTokenError>();
  });

  test("every code has a class whose errors have that code", () => {
    for (const [error, code] of kinds) expect(error.code).toBe(code);
    expectTypeOf<ErrorByCode[ErrorCode]>().toExtend<TenureError>();
    expectTypeOf<ErrorByCode["LEASE_LOST"]>().toEqualTypeOf<LeaseLostError>();
  });
});

describe("constructors", () => {
  test("take a message and facts, so that stores and guards of users can create every error", () => {
    const message = "Row 7 was written by a newer holder.";
    const stale = new StaleTokenError(message, tokens);
    expect(stale).toMatchObject({
      message,
      code: "STALE_TOKEN",
      name: "StaleTokenError",
      ...tokens,
    });
    const lost = { resource, reason: "revoked", token: 9n, confirmedAt } as const;
    for (const error of [
      new AcquireTimeoutError(message, { resource, waitMs: 5, heldBy: "host/1" }),
      new LeaseLostError(message, lost),
      new LeaseInDoubtError(message, { resource }),
      new DrainingError(message, { resource }),
      new UntrustedTokenError(message, { reason: "expired", resource }),
      new StoreUnavailableError(message, { applied: "no", resource }),
      new GuardUnavailableError(message, { applied: "no", resource }),
      new TokenRegressionError(message, tokens),
      new InvalidArgumentError(message, { resource }),
    ]) {
      expect(error).toMatchObject({ message, resource });
    }
    expect(new ClosedError(message)).toMatchObject({ message, code: "CLOSED" });
  });
});
