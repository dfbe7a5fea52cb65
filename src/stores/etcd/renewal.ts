// Renewing a session, with proof. etcd answers a keep-alive from the memory of a member that believes to lead; one that
// was frozen or cut off may believe so in error (up to 3.4.30 and 3.5.12), and its yes is worth nothing. So a yes counts
// only together with a read that a majority confirmed after it, in the same term: then no other leader had been elected
// when the yes was given. The read finds the session's own key, too, or else the lease is gone whatever was said. The
// whole argument is in docs/adr/017-etcd-leases-and-proof.md.

import type { KeepAlives } from "../../clients/etcd/keep-alive.ts";
import type { Op, RangeAnswer } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import type { SessionNames } from "../../clients/etcd/names.ts";
import { range, txn } from "../../clients/etcd/rpc.ts";
import { decodeNotices } from "../../core/record.ts";
import type { LeaseRef, RenewOutcome, RenewRequest } from "../contract.ts";

export interface RenewalParts {
  readonly members: Members;
  readonly keepAlives: KeepAlives;
  now(): number;
}

export async function renewed(
  { members, keepAlives, now }: RenewalParts,
  session: SessionNames,
  { acknowledged, limitMs }: Pick<RenewRequest, "acknowledged" | "limitMs">,
): Promise<RenewOutcome> {
  const endsAt = now() + limitMs;
  for (;;) {
    const alive = await keepAlives.renew(session.lease, endsAt - now());
    if (alive.ttl <= 0) return { kind: "gone" };
    const { header, kvs } = await proof(members, session, {
      acknowledged,
      limitMs: endsAt - now(),
    });
    // A leader has changed in between, or long ago without the first member's knowledge: that yes proves nothing.
    if (alive.header.term !== header.term) continue;
    const [own, ...revoked] = kvs;
    if (own === undefined || !own.key.equals(session.key)) return { kind: "gone" };
    const gone = decodeNotices(
      revoked.map(({ key, value }) => [key.toString("utf8", session.key.length), String(value)]),
    );
    return { kind: "renewed", ttlMs: alive.ttl * 1_000, gone };
  }
}

/**
 * Reads the session's keys. If there is something to acknowledge, a transaction deletes it before it reads. It proves as much
 * as the read, since a majority commits it. A late copy deletes nothing else: it compares the tokens.
 */
async function proof(
  members: Members,
  session: SessionNames,
  { acknowledged, limitMs }: Pick<RenewRequest, "acknowledged" | "limitMs">,
): Promise<Pick<RangeAnswer, "header" | "kvs">> {
  if (acknowledged.length === 0) return members.call(range, session.span, { limitMs });
  const deletions = acknowledged.map((ref) => deletion(session, ref));
  const yes = [...deletions, { get: session.span }];
  const { header, answers } = await members.call(txn, { when: [], yes, no: [] }, { limitMs });
  return { header, kvs: answers.at(-1)?.kvs ?? [] };
}

function deletion(session: SessionNames, { resource, token }: LeaseRef): Op {
  const key = session.revoked(resource);
  const than = Buffer.from(String(token));
  const when = [{ key, target: "value", is: "=", than } as const];
  return { txn: { when, yes: [{ remove: { key } }], no: [] } };
}
