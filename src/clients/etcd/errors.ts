// What errors of etcd and of the connection mean for a request: whether it may have been applied,
// whether another member may succeed, and what the user can do.

import { DOCS } from "../../core/docs.ts";
import { StoreUnavailableError, StoreUnusableError, type TenureError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import { isAboutTls, reachHint } from "../shared/reach.ts";
import { EtcdLinkError } from "./transport.ts";

/** The gRPC status codes that are distinguished here. */
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

/**
 * The token of the request has expired or is outdated, or is missing although etcd requires one.
 */
const LOGIN_REJECTED =
  /revision of auth store is old|invalid auth token|user name is empty|token is not provided/;

export interface Status {
  readonly code: number;
  readonly details: string;
}

/** The status that the server answered with. Undefined: it did not answer. */
export function statusOf(error: unknown): Status | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code, details, message } = error as Record<string, unknown>;
  return typeof code === "number" ? { code, details: String(details ?? message) } : undefined;
}

/**
 * What a failed try means. `passing`: the same request may succeed at another member or later.
 * `login`: the token of the login is not valid. `final`: this is the answer. `applied`: whether the
 * request may have changed something.
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
  // etcd answers this before it proposes anything.
  if (/no leader|too many requests|not capable|not supported for learner/.test(details))
    return { kind: "passing", applied: "no" };
  // Libraries also report a broken connection in this way.
  if (PASSING.has(code)) return { kind: "passing", applied: "unknown" };
  return { kind: "final", applied: "no" };
}

export function isLeaseMissing(error: unknown): boolean {
  return /requested lease not found/.test(statusOf(error)?.details ?? "");
}

export function isLeaseTaken(error: unknown): boolean {
  return /lease already exists/.test(statusOf(error)?.details ?? "");
}

/** The error for an answer that is final. `place` is the address, without a password. */
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
      `etcd at ${place} requires a user and a password. Name them in the URL: etcd://user:password@host.`,
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
      `The server at ${place} is not etcd with the v3 API, or it is too old (${details}).`,
      facts,
    );
  }
  return new StoreUnusableError(`etcd at ${place} refused a request: ${details}`, facts);
}

/** The error for a request that no member answered. */
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

/** The error for a request that is rejected even with a new login. */
export function loginRejected(
  error: unknown,
  facts: { readonly place: string; readonly applied: "no" | "unknown" },
): StoreUnavailableError {
  return new StoreUnavailableError(
    `etcd at ${facts.place} rejects a login that it has just issued (${statusOf(error)?.details}). Give all members the same --auth-token, and logins a longer life than a request takes (ttl of --auth-token, --auth-token-ttl).`,
    { applied: facts.applied, cause: error },
  );
}

/** The same error, with what is known about the request. */
export function withApplied(error: unknown, applied: "no" | "unknown"): unknown {
  if (!(error instanceof StoreUnavailableError) || error.applied === applied) return error;
  return new StoreUnavailableError(error.message, { applied, cause: error.cause });
}

/** Explains why the first connection failed, with hints for problems that occur only then. */
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
