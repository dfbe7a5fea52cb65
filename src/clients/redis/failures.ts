// Translates errors of Redis and of its client libraries: what each means for the request, and what
// the user can do about it. An error reply begins with a word in capitals. Every other error
// concerns the connection.

import { DOCS } from "../../core/docs.ts";
import { StoreUnavailableError, StoreUnusableError, type TenureError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import { isAboutTls, reachHint } from "../shared/reach.ts";

/** The first word of an error reply, even if an older server wraps it in the trace of a script. */
export function replyCode(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : String(error);
  const code = /^-?([A-Z][A-Z0-9]+)(?=[ :]|$)/.exec(message)?.[1];
  if (code !== "ERR") return code;
  return (
    /(?:-|\b)(OOM|READONLY|MISCONF|NOREPLICAS|NOPERM|NOSCRIPT|LOADING)\b/.exec(message)?.[1] ?? code
  );
}

/** Nothing was changed, and the same request may succeed later. */
const PASSING: Readonly<Record<string, string>> = {
  READONLY: "is a read-only replica now: a failover has happened or is under way",
  LOADING: "is loading its data",
  MASTERDOWN: "is a replica whose master is down",
  CLUSTERDOWN: "belongs to a cluster that is down",
  TRYAGAIN: "is moving the keys to another node",
  OOM: "is out of memory (maxmemory): give it more, or delete something",
  MISCONF: "cannot save to its disk and refuses writes: see its log",
  NOREPLICAS: "has fewer replicas than min-replicas-to-write asks for",
  BUSY: "is busy with a script of another program",
};

/** Nothing was changed, and the request fails until a setting is changed. */
const LASTING: Readonly<Record<string, string>> = {
  NOAUTH: "asks for a password. Name user and password in the URL: redis://user:password@host",
  WRONGPASS: "refuses this user or password. Check both in the URL: redis://user:password@host",
  NOPERM: `does not allow this user what Tenure needs. The ACL it needs is in ${DOCS}/stores/redis.md`,
  MOVED: "is part of a cluster. Write ?cluster=1 into the URL, or pass a cluster client",
  CROSSSLOT: "is part of a cluster that does not know hash tags",
};

/** The messages of client libraries if nothing was sent. */
const NOT_SENT = /Stream isn't writeable|client is offline|client is closed/i;

/** `place` is the address, without a password. */
export function failure(error: unknown, place: string): TenureError {
  const code = replyCode(error);
  const cause = redacted(error);
  const said = cause.message;
  if (code === undefined) {
    const sent = !NOT_SENT.test(said);
    return new StoreUnavailableError(
      `The connection to Redis at ${place} ${sent ? `broke (${said})` : "is down; it is being made anew"}.`,
      { applied: sent ? "unknown" : "no", cause },
    );
  }
  const passing = PASSING[code];
  if (passing !== undefined) {
    return new StoreUnavailableError(`Redis at ${place} ${passing}. Nothing was changed.`, {
      applied: "no",
      cause,
    });
  }
  const lasting = LASTING[code];
  return new StoreUnusableError(
    lasting === undefined
      ? `Redis at ${place} refused a request: ${said}`
      : `Redis at ${place} ${lasting}.`,
    { cause },
  );
}

/** Why a first connection failed. Adds hints about errors that occur only then. */
export function connectFailure(error: unknown, place: string): TenureError {
  const cause = redacted(error);
  const said = cause.message;
  if (/cluster support disabled/i.test(said)) {
    return new StoreUnusableError(
      `Redis at ${place} is no cluster. Leave cluster=1 out of the URL, or pass a plain client.`,
      { cause },
    );
  }
  if (replyCode(error) !== undefined) return failure(error, place);
  if (/sentinels are unreachable/i.test(said)) {
    return new StoreUnavailableError(
      `None of the Sentinels at ${place} named a master (${said}). Check their hosts and ports, the name of the master, and sentinel-password.`,
      { applied: "no", cause },
    );
  }
  const reason = String((cause as { code?: unknown }).code ?? "");
  if (isAboutTls(reason, said)) {
    return new StoreUnusableError(
      `No TLS connection to Redis at ${place} (${said}). Use rediss:// where the server speaks TLS and redis:// where it does not; a certificate of your own goes into redisStore({ url, tls: { ca } }).`,
      { cause },
    );
  }
  const hint = reachHint(
    reason,
    "Check host, port and firewall, and rediss:// against redis://: a server that expects TLS hangs up on plain text",
  );
  return new StoreUnavailableError(`No connection to Redis at ${place} (${said}). ${hint}.`, {
    applied: "no",
    cause,
  });
}
