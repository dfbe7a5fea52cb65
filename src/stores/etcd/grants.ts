// Granting: one transaction, one round trip, whatever its answer. A grant leaves a mark for its attempt beside the
// holder's key, on the same lease; by it a repeated request is told from a new one, also when the grant is over.
//
//   mark of this attempt there?  -> the holder's key tells whether it is still held, else it has ended
//   session there, nobody holds, nobody waits before us?  -> holder's key and mark are put, our place in line is removed
//   else                         -> our place in line is put, if wanted and not there yet; who holds is read

import { decodeRecord, encodeRecord } from "../../core/record.ts";
import type { GrantOutcome, GrantRequest } from "../store.ts";
import { isLeaseMissing } from "./failures.ts";
import type { Compare, KeyValue, Op, OpAnswer, Txn, TxnAnswer } from "./kv.ts";
import type { Members } from "./members.ts";
import type { Names } from "./names.ts";
import type { Places } from "./places.ts";
import { txn } from "./rpc.ts";

export interface GrantParts {
  readonly members: Members;
  readonly names: Names;
  readonly places: Places;
  now(): number;
}

export async function grant(parts: GrantParts, request: GrantRequest): Promise<GrantOutcome> {
  const { members, places, now } = parts;
  const endsAt = now() + request.limitMs;
  for (let round = 0; ; round += 1) {
    const limitMs = endsAt - now();
    const known = places.get(request.sessionId, request.attempt);
    let answer: TxnAnswer;
    try {
      answer = await members.call(txn, transaction(parts, request), {
        ...{ limitMs, foreseen: isLeaseMissing },
      });
    } catch (error) {
      if (!isLeaseMissing(error)) throw error;
      places.forgetSession(request.sessionId);
      return { kind: "gone" };
    }
    const outcome = outcomeOf(parts, request, answer);
    // Our own place in line kept us out: its answer got lost before, and now we know of it.
    const isKnownNow = known === undefined && places.get(request.sessionId, request.attempt);
    if (round > 0 || outcome.kind !== "busy" || !isKnownNow || outcome.holderId !== undefined)
      return outcome;
  }
}

function transaction({ names, places }: GrantParts, request: GrantRequest): Txn {
  const { sessionId, resource, attempt, holderId, value } = request;
  const session = names.session(sessionId);
  const { lease } = session;
  const holder = names.holder(resource);
  const waiter = names.waiter(resource, attempt);
  const mark = session.mark(attempt);
  const name = Buffer.from(attempt);
  const record = Buffer.from(encodeRecord({ holderId, sessionId, attempt, value }));
  const place = places.get(sessionId, attempt);
  const isThere: Compare = { key: session.key, target: "create", is: ">", than: 0n };
  const take: Op[] = [{ put: { key: holder, value: record, lease } }];
  take.push({ put: { key: mark, value: name, lease } });
  if (place !== undefined) take.push({ remove: { key: waiter } });
  const look: Op[] = [{ get: { key: session.key, keysOnly: true } }, { get: { key: holder } }];
  if (request.queue) {
    const isNew: Compare = { key: waiter, target: "create", is: "=", than: 0n };
    const join: Op = { put: { key: waiter, value: name, lease } };
    look.push({ txn: { when: [isThere, isNew], yes: [join], no: [] } });
    look.push({ get: { key: waiter, keysOnly: true } });
  }
  const isFree: Compare = { key: holder, target: "create", is: "=", than: 0n };
  const when = [isThere, isFree, ...turn(names.queue(resource), place)];
  return {
    when: [{ key: mark, target: "value", is: "=", than: name }],
    yes: [{ get: { key: holder } }],
    no: [{ txn: { when, yes: take, no: look } }],
  };
}

/** Nobody waits; or, for one who waits, nobody does since before; or it was free for so long that anyone may. */
function turn(
  queue: { readonly key: Buffer; readonly end: Buffer },
  place: { readonly revision: bigint; readonly mayOvertake: boolean } | undefined,
): Compare[] {
  if (place?.mayOvertake) return [];
  const everyone = { ...queue, target: "create" } as const;
  return place === undefined
    ? [{ ...everyone, is: "=", than: 0n }]
    : [{ ...everyone, is: ">", than: place.revision - 1n }];
}

function outcomeOf({ places }: GrantParts, request: GrantRequest, answer: TxnAnswer): GrantOutcome {
  const { sessionId, attempt } = request;
  const held = (kv: KeyValue | undefined): GrantOutcome | undefined => {
    if (kv === undefined) return undefined;
    const record = decodeRecord(kv.value.toString());
    return record.attempt === attempt && record.sessionId === sessionId
      ? { kind: "granted", token: kv.createRevision }
      : { kind: "busy", holderId: record.holderId };
  };
  if (answer.succeeded) {
    places.forget(sessionId, attempt);
    const again = held(kvOf(answer.answers[0]));
    return again?.kind === "granted" ? again : { kind: "ended" };
  }
  const inner = answer.answers[0]?.txn;
  if (inner === undefined) throw new Error("etcd answered a grant without its inner transaction.");
  if (inner.succeeded) {
    places.forget(sessionId, attempt);
    // The holder's key was made by this very transaction.
    return { kind: "granted", token: answer.header.revision };
  }
  const [session, holder, , waiter] = inner.answers;
  if (kvOf(session) === undefined) {
    places.forgetSession(sessionId);
    return { kind: "gone" };
  }
  const waiting = kvOf(waiter);
  if (waiting !== undefined) places.set(sessionId, attempt, waiting.createRevision);
  return held(kvOf(holder)) ?? { kind: "busy" };
}

function kvOf(answer: OpAnswer | undefined): KeyValue | undefined {
  return answer?.kvs[0];
}
