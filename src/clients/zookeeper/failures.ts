// The errors of ZooKeeper and of its connections: what each means for the request, and what the
// user can do. No message contains a password.

import { DOCS } from "../../core/docs.ts";
import { StoreUnavailableError, StoreUnusableError, type TenureError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import { isAboutTls, reachHint } from "../shared/reach.ts";
import { ProtocolError } from "./jute.ts";
import { ERROR } from "./messages.ts";
import { ConnectionLostError } from "./wire.ts";

/** The session has expired or was ended, which is final. */
export class SessionOverError extends Error {}

const LASTING: Readonly<Record<number, string>> = {
  [ERROR.noAuth]: `does not allow this. The nodes belong to another user: name that user and its password in the URL (zookeeper://user:password@host), or change the ACL; ${DOCS}/stores/zookeeper.md lists the permissions`,
  [ERROR.authFailed]:
    "rejects the user and password of the URL: its digest scheme is disabled, or it requires another user",
  [ERROR.saslRequired]: "requires SASL, which Tenure does not support. Allow digest",
  [ERROR.noNode]:
    "lacks a node that existed when Tenure connected: it was deleted. Connect again, which creates it",
  [ERROR.unimplemented]:
    "does not support a request that Tenure needs: it is too old. Use ZooKeeper 3.6 or later",
};

/** For an answer that the caller cannot handle. `place` is the address, without a password. */
export function refusalOf(error: number, place: string): TenureError {
  const lasting = LASTING[error];
  return lasting === undefined
    ? new StoreUnavailableError(`ZooKeeper at ${place} answered with error ${error}.`, {
        applied: "unknown",
      })
    : new StoreUnusableError(`ZooKeeper at ${place} ${lasting}.`);
}

export function lateError(place: string, limitMs: number, sent: boolean): StoreUnavailableError {
  return new StoreUnavailableError(
    sent
      ? `ZooKeeper at ${place} did not answer within ${Math.round(limitMs)} ms.`
      : `ZooKeeper at ${place} could not be asked within ${Math.round(limitMs)} ms: there is no connection. Check host, port and firewall.`,
    { applied: sent ? "unknown" : "no" },
  );
}

export function lostError(place: string, error: Error): StoreUnavailableError {
  const cause = redacted(error);
  return new StoreUnavailableError(
    `The connection to ZooKeeper at ${place} broke (${cause.message}).`,
    { applied: "unknown", cause },
  );
}

/** Why none of the servers can be used. `errors` are in the order of the list. */
export function connectError(place: string, errors: readonly Error[]): TenureError {
  const causes = errors.map(redacted);
  const cause = causes[0] ?? new Error("no host");
  const said = causes.map((each) => each.message).join("; ");
  const isForeign = causes.some((each) => rootOf(each) instanceof ProtocolError);
  if (isForeign) {
    return new StoreUnusableError(
      `The server at ${place} is not ZooKeeper (${said}). Check the port: clients use 2181 by default.`,
      { cause },
    );
  }
  const code = String((rootOf(cause) as { code?: unknown }).code ?? "");
  if (isAboutTls(code, said)) {
    return new StoreUnusableError(
      `No TLS connection to ZooKeeper at ${place} (${said}). Use the secureClientPort, and give its certificate: zookeeperStore({ url, tls: { ca } }).`,
      { cause },
    );
  }
  const hint = reachHint(
    code,
    "A server closes the connection like this if it has no quorum, is read-only, expects TLS (option tls), or has older data than this process has seen",
  );
  return new StoreUnavailableError(`No connection to ZooKeeper at ${place} (${said}). ${hint}.`, {
    applied: "no",
    cause,
  });
}

/** Whether a server has accepted the connection and then closed it. */
export function isHangUp(error: Error): boolean {
  const { code } = rootOf(error) as { code?: unknown };
  return error instanceof ConnectionLostError && (code === undefined || code === "ECONNRESET");
}

function rootOf(error: Error): Error {
  return error.cause instanceof Error ? rootOf(error.cause) : error;
}
