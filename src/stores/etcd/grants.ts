// Granting: one transaction, one round trip, whatever its answer.
//
//   session there, nobody holds, nobody waits before us, no mark?  -> the holder's key is put, our place in line removed
//   else  -> our place in line is put, if wanted and not there yet; who holds is read
//
// Who may overtake says so of the first in line as it was then, and touches its key: what was written in one time that the
// resource was free (a second copy, one that comes late, one of another waiter) is no reason to overtake in the next.
//
// A mark says that an attempt is settled, so that a copy of its request that comes late changes nothing. Copies exist only
// where an answer did not come in time or a second member was asked, and only then is a mark put: before such a grant
// is answered, and before a refusal that ends the attempt. All of it is on the session's lease and goes with it.

import type { Clock } from "../../async/clock.ts";
import { isLeaseMissing } from "../../clients/etcd/failures.ts";
import type { Compare, KeyValue, Op, Txn, TxnAnswer } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import type { Names } from "../../clients/etcd/names.ts";
import { txn } from "../../clients/etcd/rpc.ts";
import {
  encodeRecord,
  type LeaseRecord,
  readRecord,
  UNREADABLE_HOLDER,
} from "../../core/record.ts";
import type { AttemptRequest, GrantOutcome, GrantRequest } from "../contract.ts";
import type { Attempt, Attempts } from "./attempts.ts";
import type { Transactions } from "./transactions.ts";

export interface GrantParts {
  readonly members: Members;
  readonly names: Names;
  readonly attempts: Attempts;
  readonly transactions: Transactions;
  readonly clock: Clock;
  now(): number;
}

export async function grant(parts: GrantParts, request: GrantRequest): Promise<GrantOutcome> {
  const { attempts, now } = parts;
  const { sessionId, attempt, limitMs } = request;
  const endsAt = now() + limitMs;
  const state = attempts.at(sessionId, attempt);
  try {
    let outcome = await ask(parts, request, state, endsAt);
    // Our own place in line kept us out: an earlier answer got lost, and now we know of it.
    const isOurTurn = outcome.kind === "busy" && outcome.isNewPlace && !outcome.isHeld;
    if (isOurTurn) outcome = await ask(parts, request, state, endsAt);
    if (outcome.kind === "gone") attempts.forgetSession(sessionId);
    return outcome.kind === "busy" ? { kind: "busy", holderId: outcome.holderId } : outcome;
  } catch (error) {
    if (!isLeaseMissing(error)) throw error;
    attempts.forgetSession(sessionId);
    return { kind: "gone" };
  }
}

type Asked =
  | Exclude<GrantOutcome, { kind: "busy" }>
  | {
      readonly kind: "busy";
      readonly holderId: string | undefined;
      readonly isHeld: boolean;
      readonly isNewPlace: boolean;
    };

async function ask(
  parts: GrantParts,
  request: GrantRequest,
  state: Attempt,
  endsAt: number,
): Promise<Asked> {
  const { members, transactions, now } = parts;
  const putsMark = state.underWay > 0;
  const transaction = transactionOf(parts, request, state);
  state.underWay += 1;
  const limitMs = endsAt - now();
  // What puts a mark may remove an older one, which another attempt of the same moment could touch: that goes by itself.
  const { answer, doubtful } = await (putsMark
    ? members.ask(txn, transaction, { limitMs, foreseen: isLeaseMissing })
    : transactions.ask(request.resource, transaction, limitMs));
  if (!doubtful) state.underWay -= 1;
  let { outcome, isMarked } = outcomeOf(request, state, answer);
  if (answer.succeeded && putsMark) isMarked = true;
  const isEnd = outcome.kind === "granted" || (outcome.kind === "busy" && !request.queue);
  if (state.underWay > 0 && isEnd && !isMarked) {
    outcome = await settled(parts, request, outcome, endsAt);
    isMarked = true;
  }
  // What finds a mark does no harm.
  if (isMarked) state.underWay = 0;
  if (outcome.kind === "granted") Object.assign(state, { wasGranted: true, since: undefined });
  return outcome;
}

function transactionOf(parts: GrantParts, request: GrantRequest, state: Attempt): Txn {
  const { names } = parts;
  const { sessionId, resource, attempt, holderId, value } = request;
  const session = names.session(sessionId);
  const { lease } = session;
  const holder = names.holder(resource);
  const waiter = names.waiter(resource, attempt);
  const mark = session.mark(attempt);
  const name = Buffer.from(attempt);
  const grantedAtMs = parts.clock.wallNow();
  const record = encodeRecord({ holderId, sessionId, attempt, value, grantedAtMs });
  const isThere: Compare = { key: session.key, target: "create", is: ">", than: 0n };
  const isUnmarked = isAbsent(mark);
  const take: Op[] = [{ put: { key: holder, value: Buffer.from(record), lease } }];
  if (state.underWay > 0) take.push(...markOps(parts, request));
  if (state.since !== undefined) {
    take.push({ remove: { key: waiter } });
    if (state.overtakes !== undefined) take.push({ touch: { key: state.overtakes.key } });
  }
  const look: Op[] = [
    { get: { key: session.key, keysOnly: true } },
    { get: { key: mark, keysOnly: true } },
    { get: { key: holder } },
  ];
  if (request.queue && !state.wasGranted) {
    const join: Op = { put: { key: waiter, value: name, lease } };
    const isNew = [isThere, isUnmarked, isAbsent(waiter)];
    const unlessOurs: Txn = {
      when: isRecord(holder, record),
      yes: [],
      no: [{ txn: { when: isNew, yes: [join], no: [] } }],
    };
    look.push({ txn: unlessOurs }, { get: { key: waiter, keysOnly: true } });
  }
  const when = [isThere, isAbsent(holder), isUnmarked, ...turn(names.queue(resource), state)];
  // What was granted before is not granted again: it is held still, or has ended.
  if (state.wasGranted) when.push({ key: holder, target: "create", is: ">", than: 0n });
  return { when, yes: take, no: look };
}

/**
 * The key has this record, or that of another copy of the same request: they differ only in the time of the grant, which is
 * the number at the end.
 */
function isRecord(key: Uint8Array, record: string): Compare[] {
  const start = record.slice(0, record.lastIndexOf(":") + 1);
  // The colon follows the digits in ASCII, so this is behind every text that continues `start` with a digit.
  const end = `${start}:`;
  return [
    { key, target: "value", is: ">", than: Buffer.from(start) },
    { key, target: "value", is: "<", than: Buffer.from(end) },
  ];
}

/** Nobody waits; or, for one who waits, nobody does since before; or it was free for so long that anyone may. */
function turn(queue: { readonly key: Buffer; readonly end: Buffer }, state: Attempt): Compare[] {
  if (state.since === undefined) return [{ ...queue, target: "create", is: "=", than: 0n }];
  const { overtakes } = state;
  if (overtakes !== undefined)
    return [{ key: overtakes.key, target: "mod", is: "=", than: overtakes.modRevision }];
  return [{ ...queue, target: "create", is: ">", than: state.since - 1n }];
}

function outcomeOf(
  request: GrantRequest,
  state: Attempt,
  answer: TxnAnswer,
): { readonly outcome: Asked; readonly isMarked: boolean } {
  // The holder's key was made by this very transaction.
  if (answer.succeeded)
    return { outcome: { kind: "granted", token: answer.header.revision }, isMarked: false };
  const [session, mark, holder, , waiter] = answer.answers.map(({ kvs }) => kvs[0]);
  const isMarked = mark !== undefined;
  const holding = holder && readRecord(holder.value.toString());
  if (session === undefined) return { outcome: { kind: "gone" }, isMarked };
  if (holder !== undefined && isOwn(request, holding))
    return { outcome: { kind: "granted", token: holder.createRevision }, isMarked };
  if (isMarked || state.wasGranted) return { outcome: { kind: "ended" }, isMarked };
  return {
    outcome: {
      kind: "busy",
      holderId: holder && (holding?.holderId ?? UNREADABLE_HOLDER),
      ...placed(state, waiter),
      isHeld: holder !== undefined,
    },
    isMarked,
  };
}

function placed(state: Attempt, waiter: KeyValue | undefined): { readonly isNewPlace: boolean } {
  const isNewPlace = waiter !== undefined && state.since === undefined;
  state.since = waiter?.createRevision;
  state.overtakes = undefined;
  return { isNewPlace };
}

/**
 * Leaves the mark and looks once more: a copy may have been carried out since, or what was granted may have ended. Where a
 * copy from before we waited was granted, our place in line is still there, and would be waited for by those behind it.
 */
async function settled(
  parts: GrantParts,
  request: GrantRequest,
  outcome: Asked,
  endsAt: number,
): Promise<Asked> {
  const { members, names, now } = parts;
  const look: Op = { get: { key: names.holder(request.resource) } };
  const leave: Op = { remove: { key: names.waiter(request.resource, request.attempt) } };
  const question = { when: [], yes: [look, leave, ...markOps(parts, request)], no: [] };
  const { answers } = await members.call(txn, question, {
    ...{ limitMs: endsAt - now(), foreseen: isLeaseMissing },
  });
  const holder = answers[0]?.kvs[0];
  if (holder !== undefined && isOwn(request, readRecord(holder.value.toString())))
    return { kind: "granted", token: holder.createRevision };
  return outcome.kind === "granted" ? { kind: "ended" } : outcome;
}

/** Puts the attempt's mark. */
export function markOps(
  { names, attempts }: Pick<GrantParts, "names" | "attempts">,
  { sessionId, attempt }: AttemptRequest,
): Op[] {
  const { lease, mark } = names.session(sessionId);
  const put: Op = { put: { key: mark(attempt), value: Buffer.from(attempt), lease } };
  const oldest = attempts.marked(sessionId, attempt);
  return oldest === undefined ? [put] : [put, { remove: { key: mark(oldest) } }];
}

/** A record that is malformed (undefined) is not ours. */
export function isOwn(request: AttemptRequest, record: LeaseRecord | undefined): boolean {
  return record?.sessionId === request.sessionId && record.attempt === request.attempt;
}

function isAbsent(key: Uint8Array): Compare {
  return { key, target: "create", is: "=", than: 0n };
}
