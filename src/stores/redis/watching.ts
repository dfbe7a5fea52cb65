// Watching the leases with a prefix: what is held now, then again after every message that concerns one of them, when the
// first of them would expire, and when messages may have been missed. Only differences are told.

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import { isTenureError } from "../../core/errors.ts";
import { everyPage } from "../../core/pages.ts";
import type { LeaseView, ListPage, ListRequest, WatchRequest } from "../contract.ts";
import { changes } from "../shared/changes.ts";
import { type Channels, Mailbox } from "./channels.ts";
import type { Names } from "./names.ts";

export interface WatchParts {
  readonly channels: Channels;
  readonly clock: Clock;
  readonly names: Names;
  readonly closing: AbortSignal;
  list(request: ListRequest): Promise<ListPage>;
  /** Has grants and releases told for so long. */
  mark(ttlMs: number, limitMs: number): Promise<void>;
}

/** How many leases are asked for at once. */
const PAGE = 500;
/** Looked this often even if nothing was heard: a connection can die without a sound. */
const LOOK_MAX_MS = 5_000;
/** How long the server counts a watch as alive, and how often that is renewed. */
const MARK_MS = 30_000;
const MARK_EVERY_MS = 10_000;
/** While the server cannot be reached. */
const RETRY_MS = 500;

export async function* watch(request: WatchRequest, parts: WatchParts): AsyncIterable<LeaseView> {
  const { channels, clock, names } = parts;
  const { signal, unlink } = linkSignals(request.signal, parts.closing);
  const seen = new Map<string, bigint>();
  const mailbox = new Mailbox(clock);
  const concerns = names.channel(request.prefix);
  const hear = (message: string | undefined, channel: string): void => {
    if (message === undefined || channel.startsWith(concerns)) mailbox.put(message);
  };
  const listening = channels.listen(names.everyChannel, hear, true);
  let refusal: unknown;
  // What is held now need not wait for the subscription; what changes meanwhile is seen by the look behind it.
  listening.then(
    () => mailbox.put(undefined),
    (reason: unknown) => {
      refusal = reason;
      mailbox.put(undefined);
    },
  );
  let markAt = clock.now();
  try {
    while (!signal.aborted) {
      if (refusal !== undefined) throw refusal;
      mailbox.clear();
      // Marked first, looked then: what happens behind the look is told.
      if (clock.now() >= markAt && (await reached(parts.mark(MARK_MS, LOOK_MAX_MS))))
        markAt = clock.now() + MARK_EVERY_MS;
      const held = await all(request.prefix, parts, signal);
      if (held !== undefined) {
        yield* changes(seen, held);
        request.onCaughtUp?.();
      }
      await mailbox.next(waitFor(held), signal).catch(() => undefined);
    }
  } finally {
    listening.then(
      (leave) => leave(),
      () => undefined,
    );
    unlink();
  }
}

/** Until the first of them would expire. */
function waitFor(held: readonly LeaseView[] | undefined): number {
  if (held === undefined) return RETRY_MS;
  let waitMs = LOOK_MAX_MS;
  for (const { holder } of held) waitMs = Math.min(waitMs, (holder?.expiresInMs ?? 0) + 2);
  return waitMs;
}

/** Undefined while the server cannot be reached: a watch outlives an interruption. */
async function all(
  prefix: string,
  parts: WatchParts,
  signal: AbortSignal,
): Promise<LeaseView[] | undefined> {
  const views: LeaseView[] = [];
  try {
    const pages = everyPage((after) =>
      parts.list({ prefix, after, limit: PAGE, limitMs: LOOK_MAX_MS }),
    );
    for await (const { leases } of pages) {
      views.push(...leases);
      if (signal.aborted) break;
    }
    return views;
  } catch (error) {
    if (isTenureError(error, "STORE_UNAVAILABLE")) return undefined;
    throw error;
  }
}

/** Whether it was carried out; throws when it never will be. */
async function reached(request: Promise<void>): Promise<boolean> {
  try {
    await request;
    return true;
  } catch (error) {
    if (isTenureError(error, "STORE_UNAVAILABLE")) return false;
    throw error;
  }
}
