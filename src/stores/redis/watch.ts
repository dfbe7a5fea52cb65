// Watches the leases with a prefix. Yields what is held, and reads it again after every change that
// is published, when the first lease would expire, and after messages may have been missed. Yields
// only differences.

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import { isTenureError } from "../../core/errors.ts";
import { everyPage } from "../../core/pages.ts";
import type { LeaseView, ListPage, ListRequest, WatchRequest } from "../contract.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import { Wakeup } from "../shared/wakeup.ts";
import type { Channels } from "./channels.ts";

export interface WatchParts {
  readonly channels: Channels;
  /** The channel on which changes are published. */
  readonly channel: string;
  readonly clock: Clock;
  readonly closing: AbortSignal;
  list(request: ListRequest): Promise<ListPage>;
  /** Has every change published for this many milliseconds. */
  announce(ttlMs: number, limitMs: number): Promise<unknown>;
}

/** How many leases one request reads. */
const PAGE = 500;
/** How often to read without a message, because a connection can break unnoticed. */
const POLL_MS = 5_000;
const ANNOUNCE_MS = 30_000;
const ANNOUNCE_EVERY_MS = 10_000;
/** While the server cannot be reached. */
const RETRY_MS = 500;

export async function* watch(request: WatchRequest, parts: WatchParts): AsyncIterable<LeaseView> {
  const { channels, clock, channel } = parts;
  const { prefix } = request;
  const { signal, unlink } = linkSignals(request.signal, parts.closing);
  const seen = new Map<string, bigint>();
  const wakeup = new Wakeup(clock);
  const listening = channels.listen(channel, (resource) => {
    if (resource === undefined || resource.startsWith(prefix)) wakeup.notify();
  });
  let rejection: unknown;
  // The first read need not wait for the subscription. The read after it finds what has changed.
  listening.then(wakeup.notify, (reason: unknown) => {
    rejection = reason;
    wakeup.notify();
  });
  let announceAt = clock.now();
  try {
    while (!signal.aborted) {
      if (rejection !== undefined) throw rejection;
      wakeup.reset();
      // Announced before the read, so that every later change is published.
      if (clock.now() >= announceAt && (await orUnreached(parts.announce(ANNOUNCE_MS, POLL_MS))))
        announceAt = clock.now() + ANNOUNCE_EVERY_MS;
      const held = await orUnreached(listAll(prefix, parts, signal));
      if (held !== undefined) {
        yield* changes(seen, held);
        request.onCaughtUp?.();
      }
      const waitMs = held === undefined ? RETRY_MS : Math.min(POLL_MS, firstExpiryMs(held) + 2);
      await wakeup.wait(waitMs, signal).catch(() => undefined);
    }
  } finally {
    listening.then((leave) => leave()).catch(() => undefined);
    unlink();
  }
}

async function listAll(
  prefix: string,
  { list }: WatchParts,
  signal: AbortSignal,
): Promise<LeaseView[]> {
  const views: LeaseView[] = [];
  const read = (after: string | undefined): Promise<ListPage> =>
    list({ prefix, after, limit: PAGE, limitMs: POLL_MS });
  for await (const { leases } of everyPage(read)) {
    views.push(...leases);
    if (signal.aborted) break;
  }
  return views;
}

/** Undefined while the server cannot be reached: a watch survives an interruption. */
async function orUnreached<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isTenureError(error, "STORE_UNAVAILABLE")) return undefined;
    throw error;
  }
}
