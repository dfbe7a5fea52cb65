// Fencing tokens: a bigint in memory, decimal digits in messages, 39 digits with leading zeros
// where text must sort. A store may compose a token from an epoch and a counter, so code must not
// assume that a token is below 2^53 or 2^63.

import { InvalidArgumentError } from "./errors.ts";

/**
 * Tokens lie in 0 < token < 2^127, so that PostgreSQL's numeric(39) and a signed 128-bit integer
 * can hold them.
 */
export const TOKEN_LIMIT: bigint = 2n ** 127n;

/** 2^127 has 39 decimal digits. */
const PADDED_DIGITS = 39;

export function isToken(value: unknown): value is bigint {
  return typeof value === "bigint" && value > 0n && value < TOKEN_LIMIT;
}

export function checkToken(value: unknown): bigint {
  if (isToken(value)) return value;
  const shown = typeof value === "bigint" ? `${value}n` : `${typeof value} ${String(value)}`;
  throw new InvalidArgumentError(
    `Expected a fencing token (bigint, above 0, below 2^127), got ${shown}. Pass lease.token as it is; never a number.`,
  );
}

/**
 * Reads decimal digits, with or without leading zeros. Rejects signs, spaces, exponents and numbers
 * out of range.
 */
export function parseToken(text: string): bigint {
  if (!/^[0-9]{1,39}$/.test(text)) {
    throw new InvalidArgumentError(
      `Expected a fencing token as 1 to 39 decimal digits, got ${JSON.stringify(text.slice(0, 60))}.`,
    );
  }
  return checkToken(BigInt(text));
}

/** The token as decimal digits, without leading zeros. parseToken() reads it back. */
export function formatToken(token: bigint): string {
  return checkToken(token).toString();
}

/** 39 digits: this text sorts in the same order as the numbers. */
export function padToken(token: bigint): string {
  return checkToken(token).toString().padStart(PADDED_DIGITS, "0");
}

/**
 * The rule of every guard (S2). An equal token belongs to the same term and is admitted; a lower
 * one is stale. `highest` is undefined before the first token.
 */
export function admits(highest: bigint | undefined, offered: bigint): boolean {
  return highest === undefined || offered >= highest;
}
