// A highest token as it is kept outside of databases: 39 digits of text. What was read may have been written by anyone.

import { StoreUnusableError } from "../../core/errors.ts";
import { isToken } from "../../core/token.ts";

/** Undefined for anything but 39 digits of a possible token. */
export function paddedToken(text: string): bigint | undefined {
  const token = /^[0-9]{39}$/.test(text) ? BigInt(text) : undefined;
  return isToken(token) ? token : undefined;
}

/** `where` is for people: the key or path that it was read from. */
export function storedToken(text: string, where: string): bigint {
  const token = paddedToken(text);
  if (token !== undefined) return token;
  throw new StoreUnusableError(
    `"${where}" should hold a token of 39 digits, and holds ${JSON.stringify(text.slice(0, 60))}. Nothing was written. ` +
      "Something else writes there: give the guard another place, or put the highest token there, padded with zeros.",
  );
}
