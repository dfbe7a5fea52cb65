// The wish of a leader who resigns: who shall lead next. A note that others find and hold back for, once and for a bounded
// time. It decides nothing: who leads is whom the store granted the lease.

import { isDelay, pause } from "../async/waits.ts";
import { InvalidArgumentError, StoreUnavailableError } from "../core/errors.ts";
import { checkHolderId } from "../core/record.ts";
import type { Leases } from "../holder/leases.ts";
import { openUnrenewed, type UnrenewedParts } from "../holder/unrenewed.ts";

export interface Preference {
  /** The holderId of the successor that is wished for. */
  readonly preferred: string;
  /** How long others hold back for it. */
  readonly preferredMs: number;
}

/** A note that was found; `token` tells it from others. */
export interface Note extends Preference {
  readonly token: bigint;
}

const PREFERRED_MS = 2_000;
/** The longest that candidates hold back, whatever a note says: anyone who can write to the store can leave one. */
const PREFERRED_MAX_MS = 60_000;
/** Finding out is part of every takeover, so it may not take long. */
const LOOK_MAX_MS = 250;

export function noteOf(name: string): string {
  return `${name}@next`;
}

/** Undefined when nobody is preferred. */
export function checkPreference(given: {
  readonly preferred?: string | undefined;
  readonly preferredMs?: number | undefined;
}): Preference | undefined {
  const { preferred, preferredMs = PREFERRED_MS } = given;
  if (!isDelay(preferredMs) || preferredMs > PREFERRED_MAX_MS) {
    throw new InvalidArgumentError(
      `\`preferredMs\` must be from 0 to ${PREFERRED_MAX_MS}, got ${String(preferredMs)}.`,
    );
  }
  return preferred === undefined ? undefined : { preferred: checkHolderId(preferred), preferredMs };
}

/**
 * Left before the leader lets go, so that whoever is granted the lease next finds it. It lasts for as long as the leader
 * may take to end, and then as long as others hold back.
 */
export async function leaveNote(
  parts: UnrenewedParts & { readonly leases: Leases },
  name: string,
  { preferred, preferredMs, drainMs }: Preference & { readonly drainMs: number },
): Promise<void> {
  const resource = noteOf(name);
  const left = await openUnrenewed(parts, Math.min(drainMs, PREFERRED_MAX_MS) + preferredMs);
  const value = { preferred, preferredMs };
  let isLeft = false;
  try {
    let { kind } = await left.grant(resource, value);
    if (kind === "busy") {
      // An older wish, of a leader before us.
      await parts.leases.revoke(resource);
      ({ kind } = await left.grant(resource, value));
    }
    isLeft = kind === "granted";
  } finally {
    if (!isLeft) await left.end();
  }
  if (isLeft) return;
  throw new StoreUnavailableError(`The store would not keep "${resource}".`, {
    applied: "no",
    resource,
  });
}

/** What a leader before wished, if that can be found out soon. A store that does not say is no reason not to lead. */
export async function findNote(
  parts: Pick<UnrenewedParts, "clock"> & { readonly leases: Leases },
  name: string,
): Promise<Note | undefined> {
  const enough = new AbortController();
  const late = pause(parts.clock, LOOK_MAX_MS, enough.signal).catch(() => undefined);
  const read = parts.leases.read(noteOf(name)).then(
    ({ holder }) => holder,
    () => undefined,
  );
  const holder = await Promise.race([read, late]);
  enough.abort();
  const value = holder?.value as Partial<Preference> | null | undefined;
  const { preferred, preferredMs } = value ?? {};
  if (holder === undefined || typeof preferred !== "string" || typeof preferredMs !== "number")
    return undefined;
  const boundedMs = Math.min(Math.max(0, preferredMs), PREFERRED_MAX_MS);
  return { token: holder.token, preferred, preferredMs: boundedMs };
}
