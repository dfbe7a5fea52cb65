// What readers see of leases: the oldest key of each queue, and the remaining time of its session.
// etcd reports that time in whole seconds, rounded down. The views report the latest expiry that is
// consistent with it, so that a reader does not check again too early.

import type { Clock } from "../../async/clock.ts";
import type { EtcdClient } from "../../clients/etcd/client.ts";
import type { KeyValue } from "../../clients/etcd/kv.ts";
import { keyAfter, type Names } from "../../clients/etcd/names.ts";
import { leaseTimeToLive, range } from "../../clients/etcd/rpc.ts";
import { decodeRecord, heldForMs, shownRecord } from "../../core/record.ts";
import type { LeaseView, ListPage, ListRequest, ReadAnswer, ReadRequest } from "../contract.ts";
import { readHolder } from "./grant.ts";

export interface ReadParts {
  readonly client: EtcdClient;
  readonly names: Names;
  readonly clock: Clock;
}

/** How many keys of queues one request reads. */
const PAGE = 500;

export async function read(parts: ReadParts, request: ReadRequest): Promise<ReadAnswer> {
  const { client, names, clock } = parts;
  const { resource, consistency, limitMs } = request;
  const endsAt = clock.now() + limitMs;
  const isStale = consistency === "stale";
  const question = { ...readHolder(names.queue(resource)), serializable: isStale };
  const { header, kvs } = await client.call(range, question, { limitMs, leaderless: isStale });
  const options = { limitMs: endsAt - clock.now(), lenient: isStale, recordOf: decodeRecord };
  const [view] = await toViews(parts, kvs, options);
  const evidence = {
    consistency,
    revision: String(header.revision),
    ageMs: isStale ? undefined : 0,
  };
  return { resource, holder: view?.holder, evidence };
}

export async function list(parts: ReadParts, request: ListRequest): Promise<ListPage> {
  const { names, clock } = parts;
  const { prefix, after, limit, limitMs } = request;
  const endsAt = clock.now() + limitMs;
  const holders = new Map<string, KeyValue>();
  const first = after === undefined ? undefined : names.queue(after).end;
  for await (const { kvs } of readQueues(parts, prefix, { limitMs, first })) {
    for (const kv of kvs) {
      const resource = names.readQueueKey(kv.key)?.resource;
      if (resource === undefined) continue;
      const older = holders.get(resource);
      if (older === undefined || kv.createRevision < older.createRevision)
        holders.set(resource, kv);
    }
    // The queue of the last resource may go on in the next page.
    if (holders.size > limit) break;
  }
  const shown = [...holders.values()].slice(0, limit);
  const leases = await toViews(parts, shown, { limitMs: endsAt - clock.now() });
  return { leases, next: holders.size > limit ? leases.at(-1)?.resource : undefined };
}

/** All keys of the queues of resources with this prefix, in pages, as of one revision. */
export async function* readQueues(
  { client, names, clock }: ReadParts,
  prefix: string,
  options: { readonly limitMs: number; readonly first?: Buffer | undefined },
): AsyncIterable<{ readonly kvs: readonly KeyValue[]; readonly revision: bigint }> {
  const endsAt = clock.now() + options.limitMs;
  const span = names.queues(prefix);
  const { first = span.key } = options;
  let key = first.compare(span.key) > 0 ? first : span.key;
  let revision: bigint | undefined;
  while (key.compare(span.end) < 0) {
    const question = { key, end: span.end, limit: PAGE, revision };
    const page = await client.call(range, question, { limitMs: endsAt - clock.now() });
    revision ??= page.header.revision;
    yield { kvs: page.kvs, revision };
    const last = page.kvs.at(-1);
    if (!page.more || last === undefined) return;
    key = keyAfter(last.key);
  }
}

/**
 * The views of these holders. Asks for the time of each session once. `lenient`: a session whose
 * time is unknown counts as expired. `recordOf` decides what a malformed record means.
 */
export async function toViews(
  { client, names, clock }: ReadParts,
  holders: readonly KeyValue[],
  options: {
    readonly limitMs: number;
    readonly lenient?: boolean;
    readonly recordOf?: typeof shownRecord;
  },
): Promise<LeaseView[]> {
  const { limitMs, lenient = false, recordOf = shownRecord } = options;
  const leftMs = new Map<bigint, number>();
  const ask = async (lease: bigint): Promise<void> => {
    try {
      const { ttl, grantedTtl } = await client.call(leaseTimeToLive, lease, { limitMs });
      leftMs.set(lease, ttl < 0 ? 0 : Math.min(ttl + 1, grantedTtl) * 1_000);
    } catch (error) {
      if (!lenient) throw error;
    }
  };
  await Promise.all([...new Set(holders.map(({ lease }) => lease))].map(ask));
  const wallMs = clock.wallNow();
  return holders.map(({ key, value: text, createRevision: token, lease }) => {
    const { holderId, sessionId, value, ...granted } = recordOf(text.toString());
    const expiresInMs = leftMs.get(lease) ?? 0;
    // Until its holder has written the time, a lease has been handed off only now; see notes.ts.
    const isNew = granted.grantedAtMs === undefined && sessionId !== "";
    const held = isNew ? 0 : heldForMs(granted, wallMs);
    const holder = { holderId, sessionId, token, value, expiresInMs, heldForMs: held };
    return { resource: names.readQueueKey(key)?.resource ?? "", holder };
  });
}
