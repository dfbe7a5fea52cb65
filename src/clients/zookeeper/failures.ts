// What goes wrong at ZooKeeper, in our words: what it means for the request, and what the user can do about it. No message
// repeats a password.

import { DOCS } from "../../core/docs.ts";
import { StoreUnavailableError, StoreUnusableError, type TenureError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import { isAboutTls, reachHint } from "../shared/reach.ts";
import { ProtocolError } from "./jute.ts";
import { ERROR } from "./messages.ts";
import { ConnectionLostError } from "./wire.ts";

/** The server says that this session is over. It will not come back. */
export class SessionOverError extends Error {}

const LASTING: Readonly<Record<number, string>> = {
  [ERROR.noAuth]: `does not allow this. The nodes belong to someone else: name their user and password in the URL (zookeeper://user:password@host), or change their ACL; ${DOCS}/stores/zookeeper.md has what is needed`,
  [ERROR.authFailed]:
    "refuses the user and password of the URL: its digest scheme is off, or demands another user",
  [ERROR.saslRequired]: "demands SASL, which Tenure does not speak. Allow digest",
  [ERROR.noNode]:
    "lacks a node that was there when Tenure connected: somebody has deleted it. Connect again, which creates it",
  [ERROR.unimplemented]:
    "does not know a request that Tenure needs: it is too old. Tenure needs ZooKeeper 3.6 or later",
};

/** An answer that nobody foresaw. `place` is the address, without a password. */
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

/** Why no server of the list could be connected to; `causes` in the order of the list. */
export function connectError(place: string, errors: readonly Error[]): TenureError {
  const causes = errors.map(redacted);
  const cause = causes[0] ?? new Error("no host");
  const said = causes.map((each) => each.message).join("; ");
  const isForeign = causes.some((each) => rootOf(each) instanceof ProtocolError);
  if (isForeign) {
    return new StoreUnusableError(
      `What answers at ${place} is not ZooKeeper (${said}). Check the port: clients use 2181 by default.`,
      { cause },
    );
  }
  const code = String((rootOf(cause) as { code?: unknown }).code ?? "");
  if (isAboutTls(code, said)) {
    return new StoreUnusableError(
      `No TLS connection to ZooKeeper at ${place} (${said}). Use the secureClientPort, and give its certificate: zookeeperStore({ hosts, tls: { ca } }).`,
      { cause },
    );
  }
  const hint = reachHint(
    code,
    "A server hangs up like this without a quorum, in read-only mode, when it expects TLS (option tls), or when its data are older than what this process has seen",
  );
  return new StoreUnavailableError(`No connection to ZooKeeper at ${place} (${said}). ${hint}.`, {
    applied: "no",
    cause,
  });
}

/** Whether a server was there and ended the connection, rather than that nobody answered. */
export function isHangUp(error: Error): boolean {
  const { code } = rootOf(error) as { code?: unknown };
  return error instanceof ConnectionLostError && (code === undefined || code === "ECONNRESET");
}

function rootOf(error: Error): Error {
  return error.cause instanceof Error ? rootOf(error.cause) : error;
}
