// Goal: a redacted error contains no secret, and everything needed to find its cause. Method:
// errors as the client libraries and the platform create them.
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { ClosedError } from "./errors.ts";
import { redacted, redactedText } from "./redaction.ts";

const everything = (error: unknown): string =>
  inspect(error, { depth: Number.POSITIVE_INFINITY, showHidden: true }) + JSON.stringify(error);

describe("a text", () => {
  test.each([
    ["connect to redis://u:hush@h:1 failed", "connect to redis://***@h:1 failed"],
    ["bad URL postgres://u:hu/s?h#x@y@h/db", "bad URL postgres://***@h/db"],
    [
      "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'hush'",
      "ERR unknown command 'HELLO', with args beginning with: ***",
    ],
    ["open '-----BEGIN KEY-----\nhush\n-----END KEY-----'", "open '***'"],
    ["open '-----BEGIN KEY-----\nhush", "open '***"],
    ["connect ECONNREFUSED 127.0.0.1:1", "connect ECONNREFUSED 127.0.0.1:1"],
  ])("%j", (text, expected) => {
    expect(redactedText(text)).toBe(expected);
  });
});

describe("an error", () => {
  class ReplyError extends Error {
    readonly command = { name: "auth", args: ["u", "hush"] };
  }

  test("keeps class, message, stack and code, and loses the arguments of a command", () => {
    const error = Object.assign(new ReplyError("WRONGPASS"), { code: "EAUTH", port: 6379 });
    const copy = redacted(error);
    expect(copy).toBeInstanceOf(ReplyError);
    expect(copy).toMatchObject({ message: "WRONGPASS", code: "EAUTH", port: 6379 });
    expect(copy.stack).toBe(error.stack);
    expect(everything(copy)).not.toContain("hush");
    expect(error.command.args).toEqual(["u", "hush"]);
  });

  test("loses the input that the platform could not parse", () => {
    let error: unknown;
    try {
      new URL("postgres://u:hush#@h");
    } catch (reason) {
      error = reason;
    }
    expect(everything(error)).toContain("hush");
    const copy = redacted(error);
    expect(copy).toMatchObject({ name: "TypeError", code: "ERR_INVALID_URL" });
    expect(everything(copy)).not.toContain("hush");
  });

  test("has its causes and its parts copied, up to a depth limit", () => {
    let error: Error = new ReplyError("deepest redis://u:hush@h");
    for (let depth = 0; depth < 12; depth += 1)
      error = new Error(`level ${depth}`, { cause: error });
    const copy = redacted(new AggregateError([error, "redis://u:hush@h"], "both"));
    const shown = everything(copy);
    expect(shown).toContain("redis://***@h");
    expect(shown).toContain("level 5");
    expect(shown).not.toContain("level 3");
    expect(shown).not.toContain("hush");
  });

  test("with a circular cause is copied", () => {
    const error = new Error("round");
    error.cause = error;
    expect(redacted(error).message).toBe("round");
  });

  test("of Tenure is returned unchanged", () => {
    const error = ClosedError.from({ what: "The store" });
    expect(redacted(error)).toBe(error);
  });

  test.each([
    ["a text", "redis://u:hush@h", "redis://***@h"],
    ["undefined", undefined, "undefined"],
    ["an object", Object.create(null), "an object that is not an error"],
    ["an error with its own name", Object.assign(new Error("x"), { name: "Own" }), "x"],
    ["an object without a stack", { message: "x" }, "x"],
  ])("is made from %s", (_, value, message) => {
    expect(redacted(value).message).toBe(message);
    expect(everything(redacted(value))).not.toContain("hush");
  });
});
