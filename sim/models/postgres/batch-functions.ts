// The functions of src/stores/postgres/batch-functions.ts (SQL) in TypeScript: one function for
// each, in the same order.

import type { Database } from "./database.ts";
import {
  currentFloor,
  free,
  isFree,
  isLive,
  isWatched,
  take,
  tell,
  tellTurn,
  type Wanted,
} from "./functions.ts";

export function acquireFree(db: Database, wanted: readonly Wanted[]): string {
  currentFloor(db);
  for (const { resource, session } of wanted)
    if (!db.leases.has(resource) && isLive(db, session)) db.insertLease(resource);
  const answers = wanted.map((each) => {
    const lease = db.leases.get(each.resource);
    if (lease === undefined || !isFree(lease, each.attempt) || db.parts.isLocked()) return "-";
    if (!isLive(db, each.session)) return "-";
    take(db, lease, each);
    return String(lease.token);
  });
  const notified = isWatched(db) ? wanted.filter((_, index) => answers[index] !== "-") : [];
  for (const { resource } of notified) tell(db, resource);
  return answers.join(" ");
}

export interface Held {
  readonly resource: string;
  readonly session: string;
  readonly token: bigint;
}

export function releaseHeld(db: Database, wanted: readonly Held[]): string {
  const notified: string[] = [];
  const answers = wanted.map(({ resource, session, token }) => {
    const lease = db.leases.get(resource);
    if (lease?.session !== session || lease.token !== token || db.parts.isLocked()) return "-";
    if (!isLive(db, session)) return "-";
    db.parts.witness.freed(lease, "released");
    free(db, lease);
    if (lease.queued || isWatched(db)) notified.push(resource);
    return "released";
  });
  for (const resource of notified) tellTurn(db, resource);
  return answers.join(" ");
}
