// The successor that a resigning leader prefers, stored as a record next to the election's lease. A
// candidate that acquires the lease and finds the record yields to the preferred one, once and for
// a bounded time. The record has no influence on safety: the store decides who leads.

import { isDelay, pause } from "../async/waits.ts";
import { InvalidArgumentError, StoreUnavailableError } from "../core/errors.ts";
import { checkHolderId } from "../core/record.ts";
import type { Leases } from "../holder/leases.ts";
import { RESERVED_SUFFIXES } from "../holder/reserved-names.ts";
import { openUnrenewedSession, type UnrenewedSessionParts } from "../holder/unrenewed-session.ts";

export interface Preference {
  /** The holderId of the preferred successor. */
  readonly preferred: string;
  /** How long other candidates wait for it. */
  readonly preferredMs: number;
}

/** A preference read from the store. Its token identifies it. */
export interface StoredPreference extends Preference {
  readonly token: bigint;
}

const PREFERRED_MS = 2_000;
/**
 * The longest time that a candidate waits, whatever the record says: any client with access to the
 * store can write one.
 */
const PREFERRED_MAX_MS = 60_000;
/** The record is read during every takeover, so the read must not take long. */
const READ_LIMIT_MS = 250;

export function toPreferenceResource(name: string): string {
  return name + RESERVED_SUFFIXES.preference;
}

/** Undefined if the options name no preferred successor. */
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
 * Stores the preference. Must be called before the leader releases its lease, so that the next
 * holder finds it. The record lasts as long as the leader may take to stop, plus `preferredMs`.
 */
export async function storePreference(
  parts: UnrenewedSessionParts & { readonly leases: Leases },
  name: string,
  { preferred, preferredMs, drainMs }: Preference & { readonly drainMs: number },
): Promise<void> {
  const resource = toPreferenceResource(name);
  const ttlMs = Math.min(drainMs, PREFERRED_MAX_MS) + preferredMs;
  const session = await openUnrenewedSession(parts, ttlMs);
  const value = { preferred, preferredMs };
  let isStored = false;
  try {
    let { kind } = await session.grant(resource, value);
    if (kind === "busy") {
      // The record of an earlier leader.
      await parts.leases.revoke(resource);
      ({ kind } = await session.grant(resource, value));
    }
    isStored = kind === "granted";
  } finally {
    if (!isStored) await session.end();
  }
  if (isStored) return;
  throw new StoreUnavailableError(`The store did not accept "${resource}".`, {
    applied: "no",
    resource,
  });
}

/**
 * The preference of the former leader, if it can be read within the limit. A store that does not
 * answer must not prevent a candidate from leading.
 */
export async function readPreference(
  parts: Pick<UnrenewedSessionParts, "clock"> & { readonly leases: Leases },
  name: string,
): Promise<StoredPreference | undefined> {
  const finished = new AbortController();
  const timeout = pause(parts.clock, READ_LIMIT_MS, finished.signal).catch(() => undefined);
  const read = parts.leases.read(toPreferenceResource(name)).then(
    ({ holder }) => holder,
    () => undefined,
  );
  const holder = await Promise.race([read, timeout]);
  finished.abort();
  const value = holder?.value as Partial<Preference> | null | undefined;
  const { preferred, preferredMs } = value ?? {};
  if (holder === undefined || typeof preferred !== "string" || typeof preferredMs !== "number")
    return undefined;
  const boundedMs = Math.min(Math.max(0, preferredMs), PREFERRED_MAX_MS);
  return { token: holder.token, preferred, preferredMs: boundedMs };
}
