// The responses with which the HTTP guard refuses a request, as problem+json (RFC 9457). Tokens are
// strings of decimal digits, because most JSON parsers lose precision above 2^53.

import { isTenureError, type StaleTokenError } from "../../core/errors.ts";
import type { UntrustedTokenError } from "../../core/untrusted-token.ts";
import { HEADER } from "./header.ts";
import type { NoTurnError } from "./turns.ts";

export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export const STALE_TYPE = "urn:tenure:stale-token";

interface Problem {
  readonly status: number;
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly facts?: Readonly<Record<string, string>>;
}

function refusal({ status, type, title, detail, headers = {}, facts = {} }: Problem): Refusal {
  return {
    status,
    headers: {
      "Content-Type": "application/problem+json",
      "Cache-Control": "no-store",
      ...headers,
    },
    body: JSON.stringify({ type: `urn:tenure:${type}`, title, status, detail, ...facts }),
  };
}

export function missing(resource: string): Refusal {
  return refusal({
    status: 428,
    type: "token-missing",
    title: "A fencing token is required",
    detail: `Send the token of your lease: ${HEADER}: resource="...", token=...`,
    facts: { resource },
  });
}

export function otherResource(resource: string, offered: string): Refusal {
  return refusal({
    status: 403,
    type: "other-resource",
    title: "The token is for another resource",
    detail: "Send the token of the lease on the resource that this request writes to.",
    facts: { resource, offeredResource: offered },
  });
}

export function malformed(detail: string): Refusal {
  return refusal({
    status: 400,
    type: "token-malformed",
    title: "The fencing token cannot be read",
    detail,
  });
}

export function noTurn(reason: NoTurnError["reason"]): Refusal {
  const isCrowded = reason === "crowded";
  return refusal({
    status: 503,
    type: isCrowded ? "crowded" : "wait-timeout",
    title: isCrowded
      ? "Too many requests wait for those of an earlier holder"
      : "Requests of an earlier holder are still in progress",
    detail: "Nothing was written. Try again a little later.",
    headers: { "Retry-After": "1" },
  });
}

function stale({ resource = "", offered, highest }: StaleTokenError): Refusal {
  return refusal({
    status: 409,
    type: "stale-token",
    title: "The fencing token is stale",
    detail: "A newer holder has taken over. Nothing was written; do not try again with this token.",
    facts: { resource, offered: String(offered), highest: String(highest) },
  });
}

function untrusted({ reason, message }: UntrustedTokenError): Refusal {
  return refusal({
    status: 401,
    type: "token-untrusted",
    title: "The fencing token is not trusted",
    detail: message,
    headers: { "WWW-Authenticate": HEADER },
    facts: { reason },
  });
}

export function unavailable(): Refusal {
  return refusal({
    status: 503,
    type: "guard-unavailable",
    title: "The guard cannot compare tokens now",
    detail: "Nothing was written. Try again a little later.",
    headers: { "Retry-After": "1" },
  });
}

/**
 * The response for an error that the client caused, or undefined for any other error. The caller
 * then sends `unavailable()`, which contains no details of the error.
 */
export function toRefusal(error: unknown): Refusal | undefined {
  if (isTenureError(error, "STALE_TOKEN")) return stale(error);
  if (isTenureError(error, "UNTRUSTED_TOKEN")) return untrusted(error);
  if (isTenureError(error, "INVALID_ARGUMENT")) return malformed(error.message);
  return undefined;
}
