// Watches the leases with a prefix. It reads all of them once, and then each resource for which the
// server reports a change. One recursive watch covers all resources; if its connection is lost,
// everything is read again. Only differences are yielded.

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import { pause } from "../../async/waits.ts";
import type { Call } from "../../clients/zookeeper/call.ts";
import { exists, sync, watchBelow } from "../../clients/zookeeper/messages.ts";
import { decodeName, type Names } from "../../clients/zookeeper/names.ts";
import type { Reader } from "../../clients/zookeeper/reader.ts";
import { isTenureError } from "../../core/errors.ts";
import type { LeaseView, WatchRequest } from "../contract.ts";
import { changes } from "../shared/changes.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { listPage, viewResource } from "./read.ts";

export interface WatchParts {
  readonly reader: Reader;
  readonly clock: Clock;
  readonly names: Names;
  readonly closing: AbortSignal;
}

/** How often the connection is checked if nothing is reported. */
const CHECK_EVERY_MS = 5_000;
/** After a read that failed. */
const RETRY_MS = 500;

export async function* watch(request: WatchRequest, parts: WatchParts): AsyncIterable<LeaseView> {
  const { prefix, onCaughtUp } = request;
  const { reader, names, clock } = parts;
  const { signal, unlink } = linkSignals(request.signal, parts.closing);
  const wakeup = new Wakeup(clock);
  const changed = new Set<string>();
  let readsAll = true;
  const stopListening = reader.listen((path) => {
    const resource = path === undefined ? undefined : resourceOf(path, names);
    if (path === undefined) readsAll = true;
    else if (resource?.startsWith(prefix)) changed.add(resource);
    else return;
    wakeup.notify();
  });
  const seen = new Map<string, bigint>();
  const held = new Map<string, LeaseView>();
  try {
    while (!signal.aborted) {
      wakeup.reset();
      const resources = readsAll ? undefined : [...changed];
      readsAll = false;
      changed.clear();
      try {
        await reader.run(CHECK_EVERY_MS, (call) => update(call, parts, prefix, held, resources));
      } catch (error) {
        if (!isTenureError(error, "STORE_UNAVAILABLE")) throw error;
        readsAll = true;
        await pause(clock, RETRY_MS, signal).catch(() => undefined);
        continue;
      }
      yield* changes(seen, [...held.values()]);
      onCaughtUp?.();
      const waitMs = Math.min(CHECK_EVERY_MS, reader.keepAliveMs);
      await wakeup.wait(waitMs, signal).catch(() => undefined);
    }
  } finally {
    stopListening();
    unlink();
  }
}

/** Reads these resources again, or all of them if undefined. */
async function update(
  call: Call,
  parts: WatchParts,
  prefix: string,
  held: Map<string, LeaseView>,
  resources: readonly string[] | undefined,
): Promise<void> {
  const { leases } = parts.names;
  if (resources === undefined) {
    await call.ask(watchBelow(leases));
    await call.send(sync(leases));
    const all = await listPage(call, parts, { prefix, limit: Number.MAX_SAFE_INTEGER });
    held.clear();
    for (const view of all.leases) held.set(view.resource, view);
    return;
  }
  // Shows that the connection works.
  if (resources.length === 0) await call.send(exists(leases));
  const views = await Promise.all(resources.map((name) => viewResource(call, parts, name)));
  for (const view of views) {
    if (view.holder === undefined) held.delete(view.resource);
    else held.set(view.resource, view);
  }
}

/** The resource that a node below `leases` belongs to. */
function resourceOf(path: string, { leases }: Names): string | undefined {
  if (!path.startsWith(`${leases}/`)) return undefined;
  return decodeName(path.slice(leases.length + 1).split("/", 1)[0] ?? "");
}
