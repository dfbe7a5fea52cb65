// Watches the leases with a prefix: reads all queues at one revision, then follows every change. If
// changes may have been missed, because etcd has compacted them away, it reads the queues again and
// reports only the differences.

import { linkSignals } from "../../async/signals.ts";
import type { KeyValue } from "../../clients/etcd/kv.ts";
import type { WatchEvent } from "../../clients/etcd/rpc.ts";
import type { Watches } from "../../clients/etcd/watches.ts";
import { isTenureError } from "../../core/errors.ts";
import type { LeaseView, WatchRequest } from "../contract.ts";
import { changes } from "../shared/changes.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { type ReadParts, readQueues, toViews } from "./read.ts";

export interface WatchParts extends ReadParts {
  readonly watches: Watches;
  /** Aborts when the store closes. */
  readonly closing: AbortSignal;
}

const READ_LIMIT_MS = 5_000;
/** After the cluster could not be reached, or a watch was lost. */
const RETRY_MS = 500;
/** How long one wait for events may take. It only keeps the process alive. */
const WAIT_MS = 60_000;

/** The keys of each queue, by resource and key. */
type Mirror = Map<string, Map<string, KeyValue>>;

export async function* watch(request: WatchRequest, parts: WatchParts): AsyncIterable<LeaseView> {
  const { signal, unlink } = linkSignals(request.signal, parts.closing);
  const seen = new Map<string, bigint>();
  const wakeup = new Wakeup(parts.clock);
  const pause = (): Promise<void> => {
    wakeup.reset();
    return wakeup.wait(RETRY_MS, signal).catch(() => undefined);
  };
  try {
    while (!signal.aborted) {
      const state = await readAll(request.prefix, parts);
      if (state !== undefined) {
        const holders = [...state.mirror.values()].flatMap((queue) => findHolder(queue) ?? []);
        const views = await toViews(parts, holders, { limitMs: READ_LIMIT_MS, lenient: true });
        yield* changes(seen, views);
        request.onCaughtUp?.();
        yield* follow(request.prefix, state, seen, parts, signal);
      }
      await pause();
    }
  } finally {
    unlink();
  }
}

/** Undefined while the cluster cannot be reached. */
async function readAll(
  prefix: string,
  parts: WatchParts,
): Promise<{ readonly mirror: Mirror; readonly revision: bigint } | undefined> {
  const mirror: Mirror = new Map();
  let revision = 0n;
  try {
    for await (const page of readQueues(parts, prefix, { limitMs: READ_LIMIT_MS })) {
      revision = page.revision;
      for (const kv of page.kvs) apply(mirror, { isDelete: false, kv }, parts);
    }
    return { mirror, revision };
  } catch (error) {
    if (isTenureError(error, "STORE_UNAVAILABLE")) return undefined;
    throw error;
  }
}

/** Yields changes until the signal aborts or the watch is lost. */
async function* follow(
  prefix: string,
  { mirror, revision }: { readonly mirror: Mirror; readonly revision: bigint },
  seen: Map<string, bigint>,
  parts: WatchParts,
  signal: AbortSignal,
): AsyncIterable<LeaseView> {
  const wakeup = new Wakeup(parts.clock);
  const arrived: WatchEvent[] = [];
  let isLost = false;
  const close = parts.watches.open(parts.names.queues(prefix), revision + 1n, {
    onEvents: (events) => {
      arrived.push(...events);
      wakeup.notify();
    },
    onLost: () => {
      isLost = true;
      wakeup.notify();
    },
  });
  try {
    while (!isLost && !signal.aborted) {
      wakeup.reset();
      if (arrived.length === 0) await wakeup.wait(WAIT_MS, signal).catch(() => undefined);
      const changed = followEvents(mirror, arrived.splice(0), seen, parts);
      const holders = changed.flatMap(({ holder }) => holder ?? []);
      const options = { limitMs: READ_LIMIT_MS, lenient: true };
      const views = (await toViews(parts, holders, options)).values();
      for (const { resource, holder } of changed) {
        const view = holder === undefined ? { resource } : views.next().value;
        if (view !== undefined) yield view;
      }
    }
  } finally {
    close();
  }
}

/** The changes of holders that these events mean. Events of one revision happened at once. */
function followEvents(
  mirror: Mirror,
  events: readonly WatchEvent[],
  seen: Map<string, bigint>,
  parts: WatchParts,
): { readonly resource: string; readonly holder: KeyValue | undefined }[] {
  const changed: { resource: string; holder: KeyValue | undefined }[] = [];
  let touched = new Set<string>();
  for (const [index, event] of events.entries()) {
    const resource = apply(mirror, event, parts);
    if (resource !== undefined) touched.add(resource);
    if (events[index + 1]?.kv.modRevision === event.kv.modRevision) continue;
    for (const each of touched) {
      const holder = findHolder(mirror.get(each));
      if (holder?.createRevision === seen.get(each)) continue;
      if (holder === undefined) seen.delete(each);
      else seen.set(each, holder.createRevision);
      changed.push({ resource: each, holder });
    }
    touched = new Set();
  }
  return changed;
}

/** Returns the resource whose queue has changed. */
function apply(
  mirror: Mirror,
  { isDelete, kv }: WatchEvent,
  parts: WatchParts,
): string | undefined {
  const resource = parts.names.readQueueKey(kv.key)?.resource;
  if (resource === undefined) return undefined;
  const queue = mirror.get(resource) ?? new Map<string, KeyValue>();
  const name = kv.key.toString("latin1");
  if (isDelete) queue.delete(name);
  else queue.set(name, kv);
  if (queue.size === 0) mirror.delete(resource);
  else mirror.set(resource, queue);
  return resource;
}

function findHolder(queue: ReadonlyMap<string, KeyValue> | undefined): KeyValue | undefined {
  let oldest: KeyValue | undefined;
  for (const kv of queue?.values() ?? [])
    if (oldest === undefined || kv.createRevision < oldest.createRevision) oldest = kv;
  return oldest;
}
