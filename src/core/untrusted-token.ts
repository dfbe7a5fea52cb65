// The error of guards that require proof that a token was granted (guards/proof).

import { TenureError } from "./errors.ts";

/**
 * Why a guard does not trust a token that it received over a network.
 *
 * - `unsigned`: it has no signature, and the guard requires one.
 * - `malformed`: it is not a signed token.
 * - `unknownKey`, `revokedKey`: the guard does not trust the key that the token names.
 * - `signature`: the signature was not made with that key, or the text was changed afterwards.
 * - `expired`: its signature has expired.
 * - `audience`: it was signed for another service.
 * - `notHeld`: the store has no lease with this token or a higher one. The lease has ended, or was
 *   never granted.
 */
export type UntrustedReason =
  | "unsigned"
  | "malformed"
  | "unknownKey"
  | "revokedKey"
  | "signature"
  | "expired"
  | "audience"
  | "notHeld";

/** A guard that requires proof of a token rejected this one. Nothing was advanced or written. */
export class UntrustedTokenError extends TenureError {
  /** Why the guard does not trust the token. */
  readonly reason: UntrustedReason;

  constructor(
    message: string,
    facts: {
      readonly reason: UntrustedReason;
      readonly resource?: string | undefined;
      readonly cause?: unknown;
    },
  ) {
    const { resource, cause } = facts;
    super(message, { code: "UNTRUSTED_TOKEN", retryable: false, resource, cause });
    this.reason = facts.reason;
  }
}
