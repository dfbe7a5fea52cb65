// What a failover left of a session's leases. A standby may have missed a grant and yet know the session that it belongs to:
// then the session's renewals go on as if nothing had happened, and only its leases can tell. So the first renewal that is
// answered from a newer timeline than a lease was seen in asks whether it is still there. Without a failover nothing is asked.

import { parseToken } from "../../core/token.ts";
import type { Holdings } from "../shared/holdings.ts";
import type { LeaseRef } from "../store.ts";
import { listOf } from "./lists.ts";
import type { Requests } from "./requests.ts";
import { KEPT } from "./statements.ts";

export interface Held {
  readonly token: bigint;
  /** epoch() of the newest timeline that is known to have had it. */
  readonly epoch: bigint;
}

const COUNTER_BITS = 64n;

/** As it was granted: the token tells by which timeline. */
export function heldWith(token: bigint): Held {
  return { token, epoch: (token >> COUNTER_BITS) << COUNTER_BITS };
}

/** Those leases of the session that are not there any more, now that this is the timeline. Each is told once. */
export async function missedBy(
  { epoch, limitMs }: { readonly epoch: bigint; readonly limitMs: number },
  sessionId: string,
  { holdings, requests }: { readonly holdings: Holdings<Held>; readonly requests: Requests },
): Promise<readonly LeaseRef[]> {
  const older = holdings.of(sessionId).filter(([, held]) => held.epoch < epoch);
  if (older.length === 0) return [];
  const values = [listOf(older.map(([resource]) => resource)), sessionId];
  const rows = await requests.run(KEPT, values, limitMs);
  const kept = new Map(rows.map((row) => [row.resource, parseToken(String(row.token))]));
  const missed: LeaseRef[] = [];
  for (const [resource, held] of older) {
    // Released while it was asked for: nobody's any more.
    if (holdings.get(sessionId, resource) !== held) continue;
    const { token } = held;
    if (kept.get(resource) === token) {
      holdings.add(sessionId, resource, { token, epoch });
    } else {
      holdings.remove(sessionId, resource);
      missed.push({ resource, token });
    }
  }
  return missed;
}
