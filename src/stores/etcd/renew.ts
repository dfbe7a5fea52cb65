// Opens and renews a session, which is an etcd lease and a key on it. The id of the lease follows
// from that of the session, so a request whose answer was lost can be repeated.
//
// A renewal needs proof. etcd answers a keep-alive from the memory of a member that believes it is
// the leader, and up to 3.4.30 and 3.5.12 a member that was frozen or cut off may believe so in
// error. So a keep-alive counts only together with a later read that a majority confirms in the
// same term: then no other leader had been elected when the keep-alive was answered. The read must
// also find the key of the session. The whole argument is in docs/adr/017-etcd-leases-and-proof.md.

import type { Clock } from "../../async/clock.ts";
import type { EtcdClient } from "../../clients/etcd/client.ts";
import { isLeaseMissing, isLeaseTaken } from "../../clients/etcd/errors.ts";
import type { Header, KeyValue, Op, Txn } from "../../clients/etcd/kv.ts";
import type { SessionNames } from "../../clients/etcd/names.ts";
import { leaseGrant, leaseKeepAlive, range, txn } from "../../clients/etcd/rpc.ts";
import { StoreUnavailableError, StoreUnusableError } from "../../core/errors.ts";
import { decodeNotices } from "../../core/record.ts";
import type { LeaseRef, OpenSessionRequest } from "../contract.ts";

export interface RenewParts {
  readonly client: EtcdClient;
  readonly clock: Clock;
}

/** What a renewal wants to change and to read. */
export interface RenewQuestion {
  readonly acknowledged: readonly LeaseRef[];
  readonly reads: readonly Op[];
  readonly limitMs: number;
}

export interface Renewed extends Noted {
  readonly ttlMs: number;
  readonly revision: bigint;
  /** What each of the reads found. */
  readonly found: readonly (readonly KeyValue[])[];
}

/** What other processes have written about a session. */
export interface Noted {
  readonly gone: readonly LeaseRef[];
  readonly wanted: readonly LeaseRef[];
}

/** Opens the session. Resolves with the granted ttl in milliseconds. */
export async function openSession(
  parts: RenewParts,
  session: SessionNames,
  request: OpenSessionRequest,
): Promise<number> {
  const { client, clock } = parts;
  const endsAt = clock.now() + request.limitMs;
  const ttl = Math.max(1, Math.ceil(request.ttlMs / 1_000));
  const question = { id: session.lease, ttl };
  const granting = client.call(leaseGrant, question, {
    limitMs: request.limitMs,
    foreseen: isLeaseTaken,
  });
  const granted = await granting.catch((error: unknown) => {
    if (!isLeaseTaken(error)) throw error;
    return undefined;
  });
  const signing = client.call(txn, sign(session, request), {
    limitMs: endsAt - clock.now(),
    foreseen: isLeaseMissing,
  });
  // A process that was stopped in between may find the lease gone before it was ever used.
  const signed = await signing.catch((error: unknown) => {
    throw isLeaseMissing(error) ? endedTooSoon() : error;
  });
  const owner = signed.succeeded ? undefined : signed.answers[0]?.kvs[0]?.value.toString();
  if (owner !== undefined && owner !== nameplate(request)) {
    throw new StoreUnusableError(
      `The etcd lease ${session.lease} of session "${request.sessionId}" is in use by another one: ${owner}.`,
    );
  }
  if (granted !== undefined) return granted.ttl * 1_000;
  // An earlier copy of this request created the lease. A renewal starts its time from now.
  const renewal = { acknowledged: [], reads: [], limitMs: endsAt - clock.now() };
  const renewed = await renewSession(parts, session, renewal);
  if (renewed === undefined) throw endedTooSoon();
  return renewed.ttlMs;
}

/** Undefined: the session is gone. */
export async function renewSession(
  { client, clock }: RenewParts,
  session: SessionNames,
  question: RenewQuestion,
): Promise<Renewed | undefined> {
  const endsAt = clock.now() + question.limitMs;
  for (;;) {
    const alive = await client.call(leaseKeepAlive, session.lease, {
      limitMs: endsAt - clock.now(),
    });
    if (alive.ttl <= 0) return undefined;
    const left = { ...question, limitMs: endsAt - clock.now() };
    const { header, kvs, found } = await prove(client, session, left);
    // The leader has changed since, or long ago without the knowledge of the first member.
    if (alive.header.term !== header.term) continue;
    const [own, ...notes] = kvs;
    if (own === undefined || !own.key.equals(session.key)) return undefined;
    const { revision } = header;
    return { ttlMs: alive.ttl * 1_000, revision, found, ...readNotes(session, notes) };
  }
}

/** A malformed note is ignored. */
export function readNotes(session: SessionNames, kvs: readonly KeyValue[]): Noted {
  const notes = kvs.map(({ key, value }) => ({ ...session.readNote(key), value: String(value) }));
  const select = (wanted: "revoked" | "wanted"): LeaseRef[] =>
    decodeNotices(
      notes.filter(({ kind }) => kind === wanted).map(({ resource, value }) => [resource, value]),
    );
  return { gone: select("revoked"), wanted: select("wanted") };
}

interface Proof {
  readonly header: Header;
  readonly kvs: readonly KeyValue[];
  readonly found: readonly (readonly KeyValue[])[];
}

/**
 * Reads the keys of the session. Acknowledged revocations are deleted before, in the same
 * transaction. It proves as much as the read, because a majority commits it. A late copy deletes
 * nothing else, because it compares the tokens.
 */
async function prove(
  client: EtcdClient,
  session: SessionNames,
  { acknowledged, reads, limitMs }: RenewQuestion,
): Promise<Proof> {
  if (acknowledged.length === 0 && reads.length === 0) {
    const { header, kvs } = await client.call(range, session.span, { limitMs });
    return { header, kvs, found: [] };
  }
  const deletions = acknowledged.map((ref) => deletion(session, ref));
  const yes = [...deletions, { get: session.span }, ...reads];
  const { header, answers } = await client.call(txn, { when: [], yes, no: [] }, { limitMs });
  const [kvs = [], ...found] = answers.slice(deletions.length).map((answer) => answer.kvs);
  return { header, kvs, found };
}

function deletion(session: SessionNames, { resource, token }: LeaseRef): Op {
  const key = session.revoked(resource);
  const than = Buffer.from(String(token));
  const when = [{ key, target: "value", is: "=", than } as const];
  return { txn: { when, yes: [{ remove: { key } }], no: [] } };
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

function endedTooSoon(): StoreUnavailableError {
  const message = "The session's lease ended while it was opened.";
  return new StoreUnavailableError(message, { applied: "unknown" });
}
