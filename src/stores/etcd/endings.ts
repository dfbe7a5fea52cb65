// Giving back: by the holder (release, withdrawal), by somebody else (revocation). Each is conditional on the holder's
// key being the one that is meant: its create revision is the token, and no two keys share one (S5).

import type { Compare, KeyValue, Op, Txn } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import type { Names } from "../../clients/etcd/names.ts";
import { range, txn } from "../../clients/etcd/rpc.ts";
import { decodeRecord, readRecord } from "../../core/record.ts";
import type {
  AttemptRequest,
  ReleaseOutcome,
  ReleaseRequest,
  RevokeOutcome,
  RevokeRequest,
} from "../contract.ts";
import type { Attempts } from "./attempts.ts";
import { isOwn, markOps } from "./grants.ts";
import type { Transactions } from "./transactions.ts";

export interface EndingParts {
  readonly members: Members;
  readonly names: Names;
  readonly attempts: Attempts;
  readonly transactions: Transactions;
  now(): number;
}

export async function release(
  { transactions, names }: EndingParts,
  request: ReleaseRequest,
): Promise<ReleaseOutcome> {
  const { sessionId, resource, token, limitMs } = request;
  const session = names.session(sessionId);
  const holder = names.holder(resource);
  const isOurs: Compare = { key: holder, target: "lease", is: "=", than: session.lease };
  const transaction: Txn = {
    when: [isToken(holder, token), isOurs],
    yes: [{ remove: { key: holder } }],
    no: [
      { get: { key: session.key, keysOnly: true } },
      { get: { key: session.revoked(resource) } },
    ],
  };
  const { answer, doubtful } = await transactions.ask(resource, transaction, limitMs);
  if (answer.succeeded) return { kind: "released" };
  const [alive, revoked] = answer.answers.map(({ kvs }) => kvs[0]);
  // An earlier copy of this request may have done it: with the session alive and no revocation, nobody else can have. A holder
  // that has acknowledged a revocation knows that the lease is lost, whatever this answers.
  const wasUs = doubtful && alive !== undefined && revoked?.value.toString() !== String(token);
  return { kind: wasUs ? "released" : "notHeld" };
}

/**
 * One round trip where nothing was granted, as for one who only waited; a second where there is something to give back.
 * A copy of the attempt's request that may still be on its way finds a mark.
 */
export async function withdraw(parts: EndingParts, request: AttemptRequest): Promise<void> {
  const { members, names, attempts, now } = parts;
  const { sessionId, resource, attempt, limitMs } = request;
  const endsAt = now() + limitMs;
  const holder = names.holder(resource);
  const state = attempts.find(sessionId, attempt);
  const look: Op[] = [
    { get: { key: holder } },
    { remove: { key: names.waiter(resource, attempt) } },
  ];
  const isThere: Compare = {
    ...{ key: names.session(sessionId).key, target: "create", is: ">", than: 0n },
  };
  const isInDoubt = (state?.underWay ?? 0) > 0;
  const marks = isInDoubt ? markOps(parts, request) : [];
  const leave = { when: [isThere], yes: [...look, ...marks], no: [] };
  const { answers } = await members.call(txn, leave, { limitMs });
  if (state !== undefined) Object.assign(state, { since: undefined, underWay: 0 });
  const held = answers[0]?.kvs[0];
  if (held === undefined) return;
  if (!isOwn(request, readRecord(held.value.toString()))) return;
  const giveBack: Txn = {
    when: [isToken(holder, held.createRevision)],
    yes: [{ remove: { key: holder } }],
    no: [],
  };
  await members.call(txn, giveBack, { limitMs: endsAt - now() });
}

/** Reads first, because the holder's next renewal must be told, and that takes a key on the holder's own lease. */
export async function revoke(
  { members, names, now }: EndingParts,
  request: RevokeRequest,
): Promise<RevokeOutcome> {
  const { resource, token, limitMs } = request;
  const endsAt = now() + limitMs;
  const holder = names.holder(resource);
  const { kvs } = await members.call(range, { key: holder }, { limitMs });
  const held = kvs[0];
  if (held === undefined || held.createRevision !== token) return { kind: "notHeld" };
  const told = names.session(decodeRecord(held.value.toString()).sessionId).revoked(resource);
  const { answer, doubtful } = await members.ask(txn, revocation(held, told), {
    limitMs: endsAt - now(),
  });
  if (answer.succeeded) return { kind: "revoked" };
  const note = answer.answers[0]?.kvs[0];
  const wasUs = doubtful && note?.value.toString() === String(token);
  return { kind: wasUs ? "revoked" : "notHeld" };
}

function revocation(held: KeyValue, told: Buffer): Txn {
  const { key, createRevision, lease } = held;
  return {
    when: [isToken(key, createRevision)],
    yes: [
      { remove: { key } },
      { put: { key: told, value: Buffer.from(String(createRevision)), lease } },
    ],
    no: [{ get: { key: told } }],
  };
}

function isToken(holder: Uint8Array, token: bigint): Compare {
  return { key: holder, target: "create", is: "=", than: token };
}
