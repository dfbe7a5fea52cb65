// What readers see of leases: records of the key space, and what is left of their time. etcd tells a lease's time in
// whole seconds, rounded down; told on is the latest end that this can mean, so that nobody looks again too early.

import type { Clock } from "../../async/clock.ts";
import type { KeyValue } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import { behind, type Names } from "../../clients/etcd/names.ts";
import { leaseTimeToLive, range } from "../../clients/etcd/rpc.ts";
import { decodeRecord, heldForMs, shownRecord } from "../../core/record.ts";
import type { LeaseView, ListPage, ListRequest, ReadAnswer, ReadRequest } from "../contract.ts";

export interface ViewParts {
  readonly members: Members;
  readonly names: Names;
  readonly clock: Clock;
  now(): number;
}

/** A page, and the revision that it shows. */
export interface RevisedPage extends ListPage {
  readonly revision: bigint;
}

export async function read(parts: ViewParts, request: ReadRequest): Promise<ReadAnswer> {
  const { members, names, now } = parts;
  const { resource, consistency, limitMs } = request;
  const endsAt = now() + limitMs;
  const isStale = consistency === "stale";
  const question = { key: names.holder(resource), serializable: isStale };
  const { header, kvs } = await members.call(range, question, { limitMs, leaderless: isStale });
  const [view] = await views(parts, kvs, endsAt - now(), isStale, decodeRecord);
  const evidence = {
    consistency,
    revision: String(header.revision),
    ageMs: isStale ? undefined : 0,
  };
  return { resource, holder: view?.holder, evidence };
}

/** One page of the holders; with a revision, as it was then. */
export async function list(
  parts: ViewParts,
  request: ListRequest,
  revision?: bigint,
): Promise<RevisedPage> {
  const { members, names, now } = parts;
  const { prefix, after, limit, limitMs } = request;
  const endsAt = now() + limitMs;
  const { key: first, end } = names.holders(prefix);
  const next = after === undefined ? first : behind(names.holder(after));
  const key = next.compare(first) > 0 ? next : first;
  if (key.compare(end) >= 0) return { leases: [], revision: revision ?? 0n };
  const answer = await members.call(range, { key, end, limit, revision }, { limitMs });
  const leases = await views(parts, answer.kvs, endsAt - now());
  return {
    leases,
    next: answer.more ? leases.at(-1)?.resource : undefined,
    revision: revision ?? answer.header.revision,
  };
}

/**
 * Asks for the time of each session once. With `lenient`, one that cannot be asked for counts as over. `recordOf` decides
 * what a malformed record means.
 */
export async function views(
  { members, names, clock }: ViewParts,
  kvs: readonly KeyValue[],
  limitMs: number,
  lenient = false,
  recordOf: typeof shownRecord = shownRecord,
): Promise<LeaseView[]> {
  const leases = [...new Set(kvs.map((kv) => kv.lease))];
  const left = new Map<bigint, number>();
  const ask = async (lease: bigint): Promise<void> => {
    try {
      const { ttl, grantedTtl } = await members.call(leaseTimeToLive, lease, { limitMs });
      left.set(lease, ttl < 0 ? 0 : Math.min(ttl + 1, grantedTtl) * 1_000);
    } catch (error) {
      if (!lenient) throw error;
    }
  };
  await Promise.all(leases.map(ask));
  const wallMs = clock.wallNow();
  return kvs.map(({ key, value: text, createRevision: token, lease }) => {
    const { holderId, sessionId, value, ...granted } = recordOf(text.toString());
    const expiresInMs = left.get(lease) ?? 0;
    const holder = {
      ...{ holderId, sessionId, token, value, expiresInMs },
      heldForMs: heldForMs(granted, wallMs),
    };
    return { resource: names.resourceOf(key), holder };
  });
}
