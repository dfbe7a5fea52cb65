// Reads a highest token that etcd or ZooKeeper stores as 39 digits. The value is untrusted, because
// any client of the server may have written it.

import { StoreUnusableError } from "../../core/errors.ts";
import { isToken } from "../../core/token.ts";

/** Undefined for anything but 39 digits of a possible token. */
export function paddedToken(text: string): bigint | undefined {
  const token = /^[0-9]{39}$/.test(text) ? BigInt(text) : undefined;
  return isToken(token) ? token : undefined;
}

/** `where` is the key or path that the text was read from, for the message. */
export function parseStoredToken(text: string, where: string): bigint {
  const token = paddedToken(text);
  if (token !== undefined) return token;
  throw new StoreUnusableError(
    `"${where}" should hold a token of 39 digits, and holds ${JSON.stringify(text.slice(0, 60))}. Nothing was written. ` +
      "Something else writes there: give the guard another place, or put the highest token there, padded with zeros.",
  );
}
