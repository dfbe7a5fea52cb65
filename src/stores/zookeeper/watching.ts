// Watching the leases with a prefix: all of them once, then again each resource below which something happened. One watch
// of the server covers them all; where its connection breaks, everything is read again. Only differences are told.

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import type { Call } from "../../clients/zookeeper/call.ts";
import { exists, sync, watchBelow } from "../../clients/zookeeper/messages.ts";
import { decodeName, type Names } from "../../clients/zookeeper/names.ts";
import { expectOk } from "../../clients/zookeeper/nodes.ts";
import type { Reader } from "../../clients/zookeeper/reader.ts";
import { isTenureError } from "../../core/errors.ts";
import type { LeaseView, WatchRequest } from "../contract.ts";
import { changes } from "../shared/changes.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { listPage, viewAt } from "./reading.ts";

export interface WatchParts {
  readonly reader: Reader;
  readonly clock: Clock;
  readonly names: Names;
  readonly closing: AbortSignal;
}

/** So often the connection is tried when nothing is heard: it can die without a sound. */
const TRY_EVERY_MS = 5_000;
/** While the server cannot be reached. */
const RETRY_MS = 500;

export async function* watch(request: WatchRequest, parts: WatchParts): AsyncIterable<LeaseView> {
  const { signal, unlink } = linkSignals(request.signal, parts.closing);
  const news = new News(parts.clock, parts.names, request.prefix);
  const stopListening = parts.reader.listen(news.hear);
  const seen = new Map<string, bigint>();
  const held = new Map<string, LeaseView>();
  try {
    while (!signal.aborted) {
      const isCurrent = await readNews(parts, request.prefix, news, held);
      if (isCurrent) {
        yield* changes(seen, [...held.values()]);
        request.onCaughtUp?.();
      }
      const tryMs = Math.min(TRY_EVERY_MS, parts.reader.keepAliveMs);
      await (isCurrent ? news.next(tryMs, signal) : news.pause(signal));
    }
  } finally {
    stopListening();
    unlink();
  }
}

/** Brings `held` up to date. False while the server cannot be reached: a watch outlives an interruption. */
async function readNews(
  parts: WatchParts,
  prefix: string,
  news: News,
  held: Map<string, LeaseView>,
): Promise<boolean> {
  const { reader, names } = parts;
  const { everything, resources } = news.take();
  try {
    await reader.run(TRY_EVERY_MS, async (call) => {
      if (everything) {
        await call.send(watchBelow(names.leases)).then((reply) => expectOk(reply, call));
        const views = await readAll(call, parts, prefix);
        held.clear();
        for (const view of views) held.set(view.resource, view);
      } else if (resources.length === 0) await call.send(exists(names.leases));
      const views = await Promise.all(resources.map((name) => viewAt(call, parts, name)));
      for (const view of views) {
        if (view.holder === undefined) held.delete(view.resource);
        else held.set(view.resource, view);
      }
    });
    return true;
  } catch (error) {
    news.hear(undefined);
    if (isTenureError(error, "STORE_UNAVAILABLE")) return false;
    throw error;
  }
}

async function readAll(
  call: Call,
  parts: WatchParts,
  prefix: string,
): Promise<readonly LeaseView[]> {
  const limit = Number.MAX_SAFE_INTEGER;
  await call.send(sync(parts.names.leases));
  return (await listPage(call, parts, { prefix, limit, limitMs: TRY_EVERY_MS })).leases;
}

/** What has changed since it was last taken: some resources, or possibly all. */
class News {
  readonly #clock: Clock;
  readonly #below: string;
  readonly #prefix: string;
  #resources = new Set<string>();
  #everything = true;
  readonly #wakeup: Wakeup;

  constructor(clock: Clock, names: Names, prefix: string) {
    this.#clock = clock;
    this.#wakeup = new Wakeup(clock);
    this.#below = `${names.leases}/`;
    this.#prefix = prefix;
  }

  readonly hear = (path: string | undefined): void => {
    if (path === undefined) this.#everything = true;
    else {
      if (!path.startsWith(this.#below)) return;
      const resource = decodeName(path.slice(this.#below.length).split("/", 1)[0] ?? "");
      if (resource === undefined || !resource.startsWith(this.#prefix)) return;
      this.#resources.add(resource);
    }
    this.#wakeup.notify();
  };

  take(): { everything: boolean; resources: string[] } {
    const taken = { everything: this.#everything, resources: [...this.#resources] };
    this.#everything = false;
    this.#resources = new Set();
    this.#wakeup.reset();
    return taken;
  }

  /** Resolves when there is some, when the time is over, or when the signal aborts. */
  next(waitMs: number, signal: AbortSignal): Promise<void> {
    return this.#wakeup.wait(waitMs, signal).catch(() => undefined);
  }

  /** While the server is away every failure is news, and yet there is nothing to do at once. */
  pause(signal: AbortSignal): Promise<void> {
    return new Wakeup(this.#clock).wait(RETRY_MS, signal).catch(() => undefined);
  }
}
