// Watching the leases with a prefix: what is held at one revision, then every change from the next one on. When changes
// may have been missed (compacted away), it is read again and only the differences are told.

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import type { WatchEvent } from "../../clients/etcd/rpc.ts";
import type { Watches } from "../../clients/etcd/watches.ts";
import { isTenureError } from "../../core/errors.ts";
import { everyPage } from "../../core/pages.ts";
import type { LeaseView, WatchRequest } from "../contract.ts";
import { changes } from "../shared/changes.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { list, type ViewParts, views } from "./views.ts";

export interface WatchingParts extends ViewParts {
  readonly watches: Watches;
  readonly clock: Clock;
  readonly closing: AbortSignal;
}

const PAGE = 500;
const READ_LIMIT_MS = 5_000;
/** While the cluster cannot be reached, or after a watch was refused. */
const RETRY_MS = 500;
/** Nothing is due then; it only keeps the process alive, as somebody is watching. */
const BEAT_MS = 60_000;

type News = readonly WatchEvent[] | "lost" | "over";

export async function* watch(
  request: WatchRequest,
  parts: WatchingParts,
): AsyncIterable<LeaseView> {
  const { signal, unlink } = linkSignals(request.signal, parts.closing);
  const seen = new Map<string, bigint>();
  try {
    while (!signal.aborted) {
      const held = await all(request.prefix, parts, signal);
      if (held === undefined) {
        await new Inbox(parts.clock, signal).next(RETRY_MS);
        continue;
      }
      yield* changes(seen, held.leases);
      request.onCaughtUp?.();
      yield* follow(request.prefix, held.revision + 1n, seen, parts, signal);
    }
  } finally {
    unlink();
  }
}

/** Until the signal aborts or the watch is lost. */
async function* follow(
  prefix: string,
  from: bigint,
  seen: Map<string, bigint>,
  parts: WatchingParts,
  signal: AbortSignal,
): AsyncIterable<LeaseView> {
  const inbox = new Inbox(parts.clock, signal);
  const close = parts.watches.open(parts.names.holders(prefix), from, {
    onEvents: (events) => inbox.put(events),
    onLost: () => inbox.put("lost"),
  });
  try {
    for (;;) {
      const news = await inbox.next(BEAT_MS);
      if (news === undefined) continue;
      if (news === "over") return;
      if (news === "lost") {
        await new Inbox(parts.clock, signal).next(RETRY_MS);
        return;
      }
      yield* told(news, seen, parts);
    }
  } finally {
    close();
  }
}

async function* told(
  events: readonly WatchEvent[],
  seen: Map<string, bigint>,
  parts: WatchingParts,
): AsyncIterable<LeaseView> {
  const grants = events.filter(({ isDelete }) => !isDelete).map(({ kv }) => kv);
  const granted = (await views(parts, grants, READ_LIMIT_MS, true)).values();
  for (const { isDelete, kv } of events) {
    if (!isDelete) {
      const view = granted.next().value;
      if (view === undefined) continue;
      seen.set(view.resource, kv.createRevision);
      yield view;
    } else {
      const resource = parts.names.resourceOf(kv.key);
      if (seen.delete(resource)) yield { resource };
    }
  }
}

/** All pages as of one revision. Undefined while the cluster cannot be reached: a watch outlives an interruption. */
async function all(
  prefix: string,
  parts: WatchingParts,
  signal: AbortSignal,
): Promise<{ leases: LeaseView[]; revision: bigint } | undefined> {
  const leases: LeaseView[] = [];
  let revision: bigint | undefined;
  try {
    const pages = everyPage((after) =>
      list(parts, { prefix, after, limit: PAGE, limitMs: READ_LIMIT_MS }, revision),
    );
    for await (const page of pages) {
      leases.push(...page.leases);
      revision = page.revision;
      if (signal.aborted) break;
    }
    return { leases, revision: revision ?? 0n };
  } catch (error) {
    if (isTenureError(error, "STORE_UNAVAILABLE")) return undefined;
    throw error;
  }
}

/** Keeps news until somebody asks for them. */
class Inbox {
  readonly #wakeup: Wakeup;
  readonly #signal: AbortSignal;
  readonly #news: News[] = [];

  constructor(clock: Clock, signal: AbortSignal) {
    this.#wakeup = new Wakeup(clock);
    this.#signal = signal;
  }

  put(news: News): void {
    this.#news.push(news);
    this.#wakeup.notify();
  }

  /** Undefined when there was none for so long. */
  async next(limitMs: number): Promise<News | undefined> {
    if (this.#news.length === 0) this.#wakeup.reset();
    await this.#wakeup.wait(limitMs, this.#signal).catch(() => undefined);
    return this.#signal.aborted ? "over" : this.#news.shift();
  }
}
