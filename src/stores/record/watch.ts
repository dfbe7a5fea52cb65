// Lists and watches the held leases of a backend with conditional writes. A lease is shown only if
// the session of its holder has not ended, so a list also reads the sessions that were not read
// recently.

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import { isTenureError } from "../../core/errors.ts";
import { everyPage } from "../../core/pages.ts";
import type { HolderView, LeaseView, ListPage, ListRequest, WatchRequest } from "../contract.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { LEASE_PREFIX, type ListedRecord, type RecordBackend } from "./backend.ts";
import { decodeLease, type LeaseRecord } from "./records.ts";

export interface ListParts {
  readonly backend: RecordBackend;
  readonly clock: Clock;
  readonly endsAt: number;
  /** What a reader sees of the holder. Undefined if the session of the holder has ended. */
  findView(record: LeaseRecord): Promise<HolderView | undefined>;
}

/** How many records one request lists. */
const PAGE = 500;
/** How many sessions are read at once. */
const READS_AT_ONCE = 16;
const WATCH_LIMIT_MS = 5_000;
/** While the backend cannot be reached. */
const RETRY_MS = 500;

/** Free resources have records too, so one page of leases may need several requests. */
export async function listLeases(request: ListRequest, parts: ListParts): Promise<ListPage> {
  const { backend, clock, endsAt } = parts;
  const prefix = LEASE_PREFIX + request.prefix;
  const leases: LeaseView[] = [];
  let after = request.after === undefined ? undefined : LEASE_PREFIX + request.after;
  do {
    const limitMs = endsAt - clock.now();
    const { records, next } = await backend.list({ prefix, after, limit: PAGE, limitMs });
    const held = records.map(decodeHeld).filter((each) => each !== undefined);
    for (let at = 0; at < held.length; at += READS_AT_ONCE) {
      const some = held.slice(at, at + READS_AT_ONCE);
      const holders = await Promise.all(some.map(({ record }) => parts.findView(record)));
      for (const [index, holder] of holders.entries()) {
        const resource = some[index]?.resource ?? "";
        if (holder === undefined) continue;
        if (leases.length === request.limit) return { leases, next: leases.at(-1)?.resource };
        leases.push({ resource, holder });
      }
    }
    after = next;
  } while (after !== undefined);
  return { leases };
}

/** Undefined if the resource is free. A malformed record must not hide the other leases. */
function decodeHeld({ key, body }: ListedRecord) {
  try {
    const record = decodeLease(body);
    return record.held && { resource: key.slice(LEASE_PREFIX.length), record };
  } catch {
    return undefined;
  }
}

export interface WatchParts {
  readonly backend: RecordBackend;
  readonly clock: Clock;
  readonly closing: AbortSignal;
  list(request: ListRequest): Promise<ListPage>;
}

export async function* watchLeases(
  request: WatchRequest,
  { backend, clock, closing, list }: WatchParts,
): AsyncIterable<LeaseView> {
  const { prefix } = request;
  const { signal, unlink } = linkSignals(request.signal, closing);
  const seen = new Map<string, bigint>();
  const wakeup = new Wakeup(clock);
  const stop = backend.subscribe?.({ prefix: LEASE_PREFIX + prefix }, () => wakeup.notify());
  try {
    while (!signal.aborted) {
      wakeup.reset();
      const held = await listAll(prefix, list).catch((error: unknown) => {
        // A watch survives an interruption.
        if (isTenureError(error, "STORE_UNAVAILABLE")) return undefined;
        throw error;
      });
      if (held !== undefined && !signal.aborted) {
        yield* changes(seen, held);
        request.onCaughtUp?.();
      }
      const { maxPollMs } = backend.facts;
      const waitMs = held ? Math.min(maxPollMs, firstExpiryMs(held) + 1) : RETRY_MS;
      await wakeup.wait(waitMs, signal).catch(() => undefined);
    }
  } finally {
    stop?.();
    unlink();
  }
}

async function listAll(prefix: string, list: WatchParts["list"]): Promise<LeaseView[]> {
  const views: LeaseView[] = [];
  const read = (after: string | undefined): Promise<ListPage> =>
    list({ prefix, after, limit: PAGE, limitMs: WATCH_LIMIT_MS });
  for await (const { leases } of everyPage(read)) views.push(...leases);
  return views;
}
