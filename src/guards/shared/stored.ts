// A highest token as it is kept outside of databases: 39 digits of text. What was read may have been written by anyone.

import { StoreUnusableError } from "../../core/errors.ts";
import { parseToken } from "../../core/token.ts";

/** `where` is for people: the key or path that it was read from. */
export function parseStoredToken(text: string, where: string): bigint {
  if (/^\d{39}$/.test(text)) return parseToken(text);
  throw new StoreUnusableError(
    `"${where}" should hold a token of 39 digits, and holds ${JSON.stringify(text.slice(0, 60))}. Nothing was written. ` +
      "Something else writes there: give the guard another place, or put the highest token there, padded with zeros.",
  );
}
