// The client's side: a fetch that puts the token of the lease on the request and asks check() right before it leaves.

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

/** With `resource`, it sends tokens of leases on that resource only; among several around a call it takes that one. */
export interface FencedFetchOptions extends GuardOptions {
  /** Signs every token, for services that ask for it: `(source) => signer.sign(source, { expiresInMs: 30_000 })`. */
  readonly sign?: ((source: TokenSource) => string) | undefined;
}

const FENCED_FETCH_OPTIONS: OptionNames<FencedFetchOptions> = { ...GUARD_OPTIONS, sign: true };

export interface FencedInit extends Omit<RequestInit, "redirect"> {
  /** Whose request it is. @default the lease of the `lease.run()` around the call */
  readonly lease?: TokenSource | undefined;
  /**
   * "follow" repeats the request, with its token and without a check of the lease, at the address that the answer names,
   * perhaps another origin. "manual" returns the redirect as the answer.
   * @default "error", or what a Request sets other than "follow": the call fails on a redirect
   */
  readonly redirect?: RequestInit["redirect"] | undefined;
}

export type FencedFetch = (input: string | URL | Request, init?: FencedInit) => Promise<Response>;

/**
 * `const write = fencedFetch()`, then `write(url, { method: "PUT", body })` inside `lease.run()`. Rejects with
 * StaleTokenError when the service refuses the token; every other answer is returned as fetch does.
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
    // Nothing is awaited from this check until the request is handed over.
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

/** A Request has "follow" when its maker chose nothing, so that value counts as no choice. */
function chooseRedirect(input: string | URL | Request): NonNullable<RequestInit["redirect"]> {
  const chosen = input instanceof Request ? input.redirect : "follow";
  return chosen === "follow" ? "error" : chosen;
}

/** A 409 may also be the service's own; only ours names our type and the highest token. */
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
