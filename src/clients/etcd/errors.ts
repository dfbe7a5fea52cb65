// Errors of etcd and of the connection in our words: what each means for the request, whether another member may do
// better, and what the user can do about it.

import { DOCS } from "../../core/docs.ts";
import { StoreUnavailableError, StoreUnusableError, type TenureError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import { isAboutTls, reachHint } from "../shared/reach.ts";
import { EtcdLinkError } from "./transport.ts";

/** gRPC's numbers for the kinds that are told apart here. */
const CODES = {
  cancelled: 1,
  unknown: 2,
  deadline: 4,
  permissionDenied: 7,
  exhausted: 8,
  aborted: 10,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

const PASSING: ReadonlySet<number> = new Set([
  ...[CODES.cancelled, CODES.unknown, CODES.deadline, CODES.aborted],
  ...[CODES.internal, CODES.unavailable],
]);

/** A request with a token that has expired or is outdated, or without a token where etcd requires one. */
const LOGIN_REJECTED =
  /revision of auth store is old|invalid auth token|user name is empty|token is not provided/;

export interface Status {
  readonly code: number;
  readonly details: string;
}

/** What the server answered; undefined: it did not. Any gRPC library's errors look like this. */
export function statusOf(error: unknown): Status | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code, details, message } = error as Record<string, unknown>;
  return typeof code === "number" ? { code, details: String(details ?? message) } : undefined;
}

/**
 * What to make of a failed try. `passing`: the same request may work at another member or a little later. `login`: the
 * token of our login is not or no longer valid. `final`: it is the answer. `applied`: whether something may have been changed.
 */
export function judge(error: unknown): {
  readonly kind: "passing" | "login" | "final";
  readonly applied: "no" | "unknown";
} {
  const status = statusOf(error);
  if (status === undefined) {
    const sent = error instanceof EtcdLinkError ? error.sent : true;
    return { kind: "passing", applied: sent ? "unknown" : "no" };
  }
  const { code, details } = status;
  if (code === CODES.unauthenticated || LOGIN_REJECTED.test(details))
    return { kind: "login", applied: "no" };
  // Said before anything was proposed.
  if (/no leader|too many requests|not capable|not supported for learner/.test(details))
    return { kind: "passing", applied: "no" };
  // Among them what libraries say when a connection broke under a request.
  if (PASSING.has(code)) return { kind: "passing", applied: "unknown" };
  return { kind: "final", applied: "no" };
}

export function isLeaseMissing(error: unknown): boolean {
  return /requested lease not found/.test(statusOf(error)?.details ?? "");
}

export function isLeaseTaken(error: unknown): boolean {
  return /lease already exists/.test(statusOf(error)?.details ?? "");
}

/** An answer that is final, for the user. `place` is the address, without a password. */
export function refusal(error: unknown, place: string): TenureError {
  const cause = redacted(error);
  const { code, details } = statusOf(cause) ?? { code: 0, details: cause.message };
  const facts = { cause };
  if (code === CODES.exhausted || /space exceeded/.test(details)) {
    return new StoreUnavailableError(
      `etcd at ${place} refuses writes (${details}). Nothing was changed. Compact and defragment it, raise --quota-backend-bytes, then disarm its alarm.`,
      { applied: "no", ...facts },
    );
  }
  if (/user name is empty|token is not provided/.test(details)) {
    return new StoreUnusableError(
      `etcd at ${place} asks for a user and a password. Name them in the URL: etcd://user:password@host.`,
      facts,
    );
  }
  if (/authentication failed|invalid user ID or password/.test(details)) {
    return new StoreUnusableError(
      `etcd at ${place} refuses this user or password. Check both in the URL: etcd://user:password@host.`,
      facts,
    );
  }
  if (code === CODES.permissionDenied) {
    return new StoreUnusableError(
      `etcd at ${place} does not allow this user to read and write the keys of this prefix. The role that it needs is in ${DOCS}/stores/etcd.md.`,
      facts,
    );
  }
  if (code === CODES.unimplemented) {
    return new StoreUnusableError(
      `What listens at ${place} is no etcd with the v3 API, or one that is too old (${details}).`,
      facts,
    );
  }
  return new StoreUnusableError(`etcd at ${place} refused a request: ${details}`, facts);
}

/** Nobody answered. */
export function unavailable(
  error: unknown,
  facts: { readonly place: string; readonly applied: "no" | "unknown" },
): StoreUnavailableError {
  const cause = redacted(error);
  const status = statusOf(cause);
  const said = status?.details ?? cause.message;
  const what =
    status === undefined
      ? `The connection to etcd at ${facts.place} failed`
      : `etcd at ${facts.place} cannot serve now`;
  return new StoreUnavailableError(`${what} (${said}).`, { applied: facts.applied, cause });
}

/** Also with a new login. */
export function loginRejected(
  error: unknown,
  facts: { readonly place: string; readonly applied: "no" | "unknown" },
): StoreUnavailableError {
  return new StoreUnavailableError(
    `etcd at ${facts.place} rejects a login that it has just issued (${statusOf(error)?.details}). Give all members the same --auth-token, and logins a longer life than a request takes (ttl of --auth-token, --auth-token-ttl).`,
    { applied: facts.applied, cause: error },
  );
}

/** The same failure, about a request of which this is known. */
export function withApplied(error: unknown, applied: "no" | "unknown"): unknown {
  if (!(error instanceof StoreUnavailableError) || error.applied === applied) return error;
  return new StoreUnavailableError(error.message, { applied, cause: error.cause });
}

/** Why a first connection failed: hints for what only happens there. */
export function connectFailure(error: StoreUnavailableError, place: string): TenureError {
  const cause = deepest(error);
  const { code, message } = cause as { code?: unknown; message?: unknown };
  const said = String(message ?? cause);
  const reason = String(code ?? "");
  if (isAboutTls(reason, said)) {
    return new StoreUnusableError(
      `No TLS connection to etcd at ${place} (${said}). Use etcds:// where the server speaks TLS and etcd:// where it does not; certificates of your own go into etcdStore({ url, tls: { ca, cert, key } }).`,
      { cause: error },
    );
  }
  const hint = reachHint(
    reason,
    "Check host, port and firewall, and etcds:// against etcd://: a server that expects TLS hangs up on plain text",
  );
  return new StoreUnavailableError(`No connection to etcd at ${place} (${said}). ${hint}.`, {
    applied: "no",
    cause: error,
  });
}

function deepest(error: unknown): unknown {
  let inner = error;
  for (let depth = 0; depth < 5; depth += 1) {
    const cause = inner instanceof Error ? inner.cause : undefined;
    if (cause === undefined || cause === null) break;
    inner = cause;
  }
  return inner;
}
