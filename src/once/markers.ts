// Markers record in the store that a run has begun. A marker is a lease in a session that is not
// renewed, so it outlives the run and the process and expires by the store's clock. Only the holder
// of the lease on the key may write markers. Each key has two: replacing a marker takes two
// requests, and while the older one is being replaced, the newer one still stops late machines.

import { withLimit } from "../async/waits.ts";
import { StoreUnavailableError, StoreUnusableError } from "../core/errors.ts";
import {
  openUnrenewedSession,
  type UnrenewedSession,
  type UnrenewedSessionParts,
} from "../holder/unrenewed-session.ts";
import type { HolderView, Store } from "../stores/contract.ts";
import { type Occurrence, toMarkerResources } from "./occurrence.ts";

export interface Taken {
  readonly kind: "taken";
  /** The holderId of the process that began the run. */
  readonly by: string;
}

/** This process has written the marker. */
export interface Marked {
  readonly kind: "marked";
  /** Removes the marker, so that another process may run. Only if no work was started. */
  undo(): Promise<void>;
}

interface Marker {
  readonly resource: string;
  readonly holder: HolderView | undefined;
}

/** A late request of a former holder may interfere with writing a marker, which is then retried. */
const TRIES_MAX = 3;

/** The holder that has begun this occurrence or a later one, if the store remembers it. */
export async function findTaken(
  parts: UnrenewedSessionParts,
  occurrence: Occurrence,
): Promise<Taken | undefined> {
  return toTaken(await readMarkers(parts, occurrence), occurrence);
}

/**
 * Writes the marker, unless this occurrence or a later one has a marker. The caller must hold the
 * lease on the key.
 */
export async function markBegun(
  parts: UnrenewedSessionParts,
  occurrence: Occurrence,
): Promise<Taken | Marked> {
  const session = await openUnrenewedSession(parts, occurrence.markerMs);
  let isMarked = false;
  try {
    if (session.ttlMs < occurrence.markerMs) throw tooLong(parts.store, occurrence, session.ttlMs);
    const taken = await writeMarker(parts, occurrence, session);
    if (taken !== undefined) return taken;
    isMarked = true;
    return { kind: "marked", undo: () => session.end() };
  } finally {
    // Also after a lost answer: no work starts then, so no other process must be kept from it.
    if (!isMarked) await session.end();
  }
}

async function writeMarker(
  parts: UnrenewedSessionParts,
  occurrence: Occurrence,
  session: UnrenewedSession,
): Promise<Taken | undefined> {
  const { store, clock, limitMs } = parts;
  const { atMs, windowMs } = occurrence;
  const value = atMs === undefined ? { windowMs } : { atMs };
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const markers = await readMarkers(parts, occurrence);
    const taken = toTaken(markers, occurrence);
    if (taken !== undefined) return taken;
    const { resource, holder } = findReplaceable(markers);
    if (holder !== undefined) {
      const { token } = holder;
      await withLimit(clock, limitMs, "revocation", () =>
        store.revoke({ resource, token, limitMs }),
      );
    }
    const { kind } = await session.grant(resource, value);
    if (kind === "granted") return undefined;
    if (kind !== "busy") break;
  }
  throw new StoreUnavailableError(
    `The store could not record that "${occurrence.key}" runs, so it does not run.`,
    { applied: "no", resource: occurrence.key },
  );
}

/** The marker that is free, or else the older one: the newer one must remain. */
function findReplaceable(markers: readonly Marker[]): Marker {
  const free = markers.find(({ holder }) => holder === undefined);
  const [oldest] = [...markers].sort((a, b) => toTime(a) - toTime(b));
  return free ?? (oldest as Marker);
}

function toTaken(markers: readonly Marker[], occurrence: Occurrence): Taken | undefined {
  for (const marker of markers) {
    if (marker.holder === undefined) continue;
    if (occurrence.atMs === undefined || toTime(marker) >= occurrence.atMs)
      return { kind: "taken", by: marker.holder.holderId };
  }
  return undefined;
}

/** The scheduled time of a marker. The marker of a period covers every time while it lasts. */
function toTime({ holder }: Marker): number {
  const value = holder?.value as { readonly atMs?: unknown } | null | undefined;
  return typeof value?.atMs === "number" ? value.atMs : Number.POSITIVE_INFINITY;
}

function readMarkers(
  { store, clock, limitMs }: UnrenewedSessionParts,
  { key }: Occurrence,
): Promise<readonly Marker[]> {
  const read = async (resource: string): Promise<Marker> => {
    const { holder } = await withLimit(clock, limitMs, "read", () =>
      store.read({ resource, consistency: "linearizable", limitMs }),
    );
    return { resource, holder };
  };
  return Promise.all(toMarkerResources(key).map(read));
}

function tooLong(store: Store, occurrence: Occurrence, grantedMs: number): StoreUnusableError {
  const { store: name } = store.guarantees;
  return new StoreUnusableError(
    `"${occurrence.key}" cannot run once in ${occurrence.windowMs} ms: the ${name} store remembers a ` +
      `session for at most ${grantedMs} ms. Use a shorter time, or another store.`,
  );
}
