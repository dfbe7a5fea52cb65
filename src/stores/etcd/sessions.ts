// Opening, renewing and ending a session: one lease of etcd, and a key on it that says whose it is. The lease's id follows from the
// session's, so a request whose answer got lost can simply be asked again.

import { isLeaseMissing, isLeaseTaken } from "../../clients/etcd/failures.ts";
import type { Txn } from "../../clients/etcd/kv.ts";
import type { Names, SessionNames } from "../../clients/etcd/names.ts";
import { leaseGrant, leaseRevoke, txn } from "../../clients/etcd/rpc.ts";
import { StoreUnavailableError, StoreUnusableError } from "../../core/errors.ts";
import type {
  OpenSessionRequest,
  RenewOutcome,
  RenewRequest,
  SessionRequest,
} from "../contract.ts";
import type { Attempts } from "./attempts.ts";
import { type RenewalParts, renewed } from "./renewal.ts";

export interface SessionParts extends RenewalParts {
  readonly names: Names;
  readonly attempts: Attempts;
}

export async function openSession(
  parts: SessionParts,
  request: OpenSessionRequest,
): Promise<{ readonly ttlMs: number }> {
  const { attempts, now } = parts;
  attempts.forgetExpired(now());
  const ttlMs = await open(parts, request);
  attempts.keepSession(request.sessionId, now() + ttlMs);
  return { ttlMs };
}

async function open(parts: SessionParts, request: OpenSessionRequest): Promise<number> {
  const { members, now } = parts;
  const endsAt = now() + request.limitMs;
  const session = parts.names.session(request.sessionId);
  const ttl = Math.max(1, Math.ceil(request.ttlMs / 1_000));
  let granted: number | undefined;
  try {
    const limitMs = request.limitMs;
    const question = { id: session.lease, ttl };
    granted = (await members.call(leaseGrant, question, { limitMs, foreseen: isLeaseTaken })).ttl;
  } catch (error) {
    if (!isLeaseTaken(error)) throw error;
  }
  const signing = members.call(txn, sign(session, request), {
    ...{ limitMs: endsAt - now(), foreseen: isLeaseMissing },
  });
  // A process that was stopped in between may find the lease gone before it was ever used.
  const found = await signing.catch((error: unknown) => {
    throw isLeaseMissing(error) ? endedTooSoon() : error;
  });
  const owner = found.succeeded ? undefined : found.answers[0]?.kvs[0]?.value.toString();
  if (owner !== undefined && owner !== nameplate(request)) {
    throw new StoreUnusableError(
      `The etcd lease ${session.lease} of session "${request.sessionId}" is in use by another one: ${owner}.`,
    );
  }
  if (granted !== undefined) return granted * 1_000;
  // It was there before: by an earlier copy of this request. Its time counts from now only when it is renewed.
  const outcome = await renewed(parts, session, { acknowledged: [], limitMs: endsAt - now() });
  if (outcome.kind === "renewed") return outcome.ttlMs;
  throw endedTooSoon();
}

function endedTooSoon(): StoreUnavailableError {
  const message = "The session's lease ended while it was opened.";
  return new StoreUnavailableError(message, { applied: "unknown" });
}

export async function renewSession(
  parts: SessionParts,
  request: Omit<RenewRequest, "withdrawn">,
): Promise<RenewOutcome> {
  const { sessionId } = request;
  const { attempts, names, now } = parts;
  const outcome = await renewed(parts, names.session(sessionId), request);
  if (outcome.kind === "gone") attempts.forgetSession(sessionId);
  else attempts.keepSession(sessionId, now() + outcome.ttlMs);
  return outcome;
}

export async function endSession(
  { members, names, attempts }: SessionParts,
  { sessionId, limitMs }: SessionRequest,
): Promise<void> {
  attempts.forgetSession(sessionId);
  try {
    const { lease } = names.session(sessionId);
    await members.call(leaseRevoke, lease, { limitMs, foreseen: isLeaseMissing });
  } catch (error) {
    if (!isLeaseMissing(error)) throw error;
  }
}

function sign(session: SessionNames, request: OpenSessionRequest): Txn {
  const { key, lease } = session;
  return {
    when: [{ key, target: "create", is: "=", than: 0n }],
    yes: [{ put: { key, value: Buffer.from(nameplate(request)), lease } }],
    no: [{ get: { key } }],
  };
}

function nameplate({ sessionId, holderId }: OpenSessionRequest): string {
  return JSON.stringify({ sessionId, holderId });
}
