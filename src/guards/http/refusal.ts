// The responses with which the HTTP guard refuses a request, as problem+json (RFC 9457). Tokens are
// strings of decimal digits, because most JSON parsers lose precision above 2^53.

import { isTenureError, type StaleTokenError } from "../../core/errors.ts";
import { HEADER } from "./header.ts";
import type { NoTurnError } from "./turns.ts";

export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export const STALE_TYPE = "urn:tenure:stale-token";

/** Status and title of each problem type. */
const PROBLEMS = {
  "token-missing": [428, "A fencing token is required"],
  "other-resource": [403, "The token is for another resource"],
  "token-malformed": [400, "The fencing token cannot be read"],
  "token-untrusted": [401, "The fencing token is not trusted"],
  "stale-token": [409, "The fencing token is stale"],
  crowded: [503, "Too many requests wait for those of an earlier holder"],
  "wait-timeout": [503, "Requests of an earlier holder are still in progress"],
  "guard-unavailable": [503, "The guard cannot compare tokens now"],
} as const;

type Texts = Readonly<Record<string, string>>;

function refusal(type: keyof typeof PROBLEMS, detail: string, facts: Texts = {}): Refusal {
  const [status, title] = PROBLEMS[type];
  const headers: Record<string, string> = {
    "Content-Type": "application/problem+json",
    "Cache-Control": "no-store",
  };
  if (status === 503) headers["Retry-After"] = "1";
  if (status === 401) headers["WWW-Authenticate"] = HEADER;
  const body = JSON.stringify({ type: `urn:tenure:${type}`, title, status, detail, ...facts });
  return { status, headers, body };
}

export function missing(resource: string): Refusal {
  const detail = `Send the token of your lease: ${HEADER}: resource="...", token=...`;
  return refusal("token-missing", detail, { resource });
}

export function otherResource(resource: string, offeredResource: string): Refusal {
  const detail = "Send the token of the lease on the resource that this request writes to.";
  return refusal("other-resource", detail, { resource, offeredResource });
}

export function malformed(detail: string): Refusal {
  return refusal("token-malformed", detail);
}

const LATER = "Nothing was written. Try again a little later.";

export function noTurn(reason: NoTurnError["reason"]): Refusal {
  return refusal(reason === "crowded" ? "crowded" : "wait-timeout", LATER);
}

export function unavailable(): Refusal {
  return refusal("guard-unavailable", LATER);
}

function stale({ resource = "", offered, highest }: StaleTokenError): Refusal {
  const detail =
    "A newer holder has taken over. Nothing was written; do not try again with this token.";
  const facts = { resource, offered: String(offered), highest: String(highest) };
  return refusal("stale-token", detail, facts);
}

/**
 * The response for an error that the client caused, or undefined for any other error. The caller
 * then sends `unavailable()`, which contains no details of the error.
 */
export function toRefusal(error: unknown): Refusal | undefined {
  if (isTenureError(error, "STALE_TOKEN")) return stale(error);
  if (isTenureError(error, "UNTRUSTED_TOKEN")) {
    const { message, reason } = error;
    return refusal("token-untrusted", message, { reason });
  }
  if (isTenureError(error, "INVALID_ARGUMENT")) return malformed(error.message);
  return undefined;
}
