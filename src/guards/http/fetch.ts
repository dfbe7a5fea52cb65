// The client side of httpGuard(): a fetch function that adds the token of the lease to the request
// and calls the lease's check() right before sending it.

import { InvalidArgumentError, StaleTokenError } from "../../core/errors.ts";
import type { OptionNames } from "../../core/options.ts";
import { parseToken } from "../../core/token.ts";
import {
  checkBound,
  GUARD_OPTIONS,
  type GuardOptions,
  resolveSource,
  type TokenSource,
} from "../guard.ts";
import { formatHeader, formatSigned, HEADER } from "./header.ts";
import { STALE_TYPE } from "./refusal.ts";

/**
 * With `resource`, only tokens of leases on that resource are sent. Of several nested leases, that
 * one is used.
 */
export interface FencedFetchOptions extends GuardOptions {
  /**
   * Signs every token, for services that require it: `(source) => signer.sign(source, {
   * expiresInMs: 30_000 })`.
   */
  readonly sign?: ((source: TokenSource) => string) | undefined;
}

const FENCED_FETCH_OPTIONS: OptionNames<FencedFetchOptions> = { ...GUARD_OPTIONS, sign: true };

/** The options of one request: those of fetch(), and the lease. */
export interface FencedInit extends Omit<RequestInit, "redirect"> {
  /** The lease of the request. @default the lease of the `lease.run()` around the call */
  readonly lease?: TokenSource | undefined;
  /**
   * "follow" repeats the request, with its token and without a check of the lease, at the address
   * in the response, which may be another origin. "manual" returns the redirect as the response.
   * "error" rejects on a redirect. @default "error", unless a Request sets "manual"
   */
  readonly redirect?: RequestInit["redirect"] | undefined;
}

/** A fetch() that sends the token of a lease with every request. */
export type FencedFetch = (input: string | URL | Request, init?: FencedInit) => Promise<Response>;

/**
 * `const write = fencedFetch()`, then `write(url, { method: "PUT", body })` inside `lease.run()`.
 * Rejects with StaleTokenError if the service rejects the token as stale. Every other response is
 * returned as fetch does.
 */
export function fencedFetch(
  send: typeof fetch = fetch,
  options: FencedFetchOptions = {},
): FencedFetch {
  if (typeof send !== "function") {
    throw new InvalidArgumentError(`fencedFetch(fetch) needs a function, got ${typeof send}.`);
  }
  const bound = checkBound("fencedFetch()", options, FENCED_FETCH_OPTIONS);
  return async (input, init = {}) => {
    const { lease, redirect = chooseRedirect(input), ...rest } = init;
    if ("lease" in init && lease === undefined) {
      throw new InvalidArgumentError(
        "`lease` is there and undefined: pass the lease, or leave it out inside lease.run().",
      );
    }
    const headers = new Headers(rest.headers ?? (input instanceof Request ? input.headers : {}));
    if (headers.has(HEADER)) {
      throw new InvalidArgumentError(
        `The request has a header ${HEADER} already: leave that to fencedFetch().`,
      );
    }
    // There is no await between this check and the call of fetch.
    const source = resolveSource(lease, bound);
    headers.set(
      HEADER,
      options.sign === undefined ? formatHeader(source) : formatSigned(options.sign(source)),
    );
    const response = await send(input, { ...rest, redirect, headers });
    if (response.status === 409) await throwWhenStale(response, source);
    return response;
  };
}

/** "follow" is the default of a Request, so it does not count as a choice of the user. */
function chooseRedirect(input: string | URL | Request): NonNullable<RequestInit["redirect"]> {
  const chosen = input instanceof Request ? input.redirect : "follow";
  return chosen === "follow" ? "error" : chosen;
}

/**
 * The service may use 409 for other reasons, too. Only ours has our problem type and the highest
 * token.
 */
async function throwWhenStale(response: Response, source: TokenSource): Promise<void> {
  if (!response.headers.get("content-type")?.startsWith("application/problem+json")) return;
  const highest = await readHighest(response.clone());
  if (highest === undefined) return;
  await response.body?.cancel();
  const { resource, token: offered } = source;
  throw StaleTokenError.from({ resource, offered, highest });
}

async function readHighest(response: Response): Promise<bigint | undefined> {
  try {
    const problem = (await response.json()) as { type?: unknown; highest?: unknown } | null;
    return problem?.type === STALE_TYPE ? parseToken(String(problem.highest)) : undefined;
  } catch {
    return undefined;
  }
}
