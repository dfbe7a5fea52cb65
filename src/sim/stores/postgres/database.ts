// The tables of src/stores/postgres/schema.ts as maps. Times are whole microseconds of the server's wall clock, as PostgreSQL
// has them. A statement runs at one instant and alone, so there are no locks and no snapshots here.

import type { Ending } from "../../world/trace.ts";

export interface SessionRow {
  readonly id: string;
  readonly holderId: string;
  readonly ttlMs: number;
  expires: number;
  ended: number | undefined;
}

export interface LeaseRow {
  readonly resource: string;
  token: bigint;
  session: string | undefined;
  attempt: string;
  record: string;
  freed: number;
  queued: boolean;
}

export interface WaiterRow {
  readonly resource: string;
  readonly session: string;
  readonly attempt: string;
}

export interface RevocationRow {
  readonly session: string;
  readonly resource: string;
  readonly token: bigint;
}

/** Hears what was applied, where it is applied. */
interface Witness {
  granted(lease: LeaseRow): void;
  /** Of a lease that was held until now. */
  freed(lease: LeaseRow, how: Ending): void;
  kept(session: SessionRow): void;
}

export interface DatabaseParts {
  readonly witness: Witness;
  /** clock_timestamp(). */
  now(): number;
  /** pg_notify(): the payload, on the schema's channel. */
  notify(payload: string): void;
  /** Whether somebody else has just this row locked: what SKIP LOCKED asks. */
  isLocked(): boolean;
}

/** What a standby gets by and by. */
export interface Copy {
  readonly floor: bigint;
  readonly sessions: ReadonlyMap<string, SessionRow>;
  readonly leases: ReadonlyMap<string, LeaseRow>;
  readonly waiters: ReadonlyMap<string, WaiterRow>;
  readonly revocations: readonly RevocationRow[];
  readonly watchers: ReadonlyMap<string, number>;
}

export class Database {
  /** Rises when a standby is promoted. */
  timeline = 1n;
  /** Made long before: every standby has it. */
  hasSchema = false;
  floor = 0n;
  sessions: Map<string, SessionRow> = new Map();
  leases: Map<string, LeaseRow> = new Map();
  /** By attempt; in the order of their places, since a place is never taken again. */
  waiters: Map<string, WaiterRow> = new Map();
  revocations: RevocationRow[] = [];
  /** Until when, by id. */
  watchers: Map<string, number> = new Map();
  readonly parts: DatabaseParts;

  constructor(parts: DatabaseParts) {
    this.parts = parts;
  }

  copy(): Copy {
    const { floor, sessions, leases, waiters, revocations, watchers } = this;
    return structuredClone({ floor, sessions, leases, waiters, revocations, watchers });
  }

  /** A standby that has only this is promoted. */
  promote(copy: Copy): void {
    this.timeline += 1n;
    Object.assign(this, structuredClone(copy));
  }

  insertLease(resource: string): LeaseRow {
    const made: LeaseRow = {
      ...{ resource, token: 0n, session: undefined, attempt: "", record: "" },
      ...{ freed: Number.NEGATIVE_INFINITY, queued: false },
    };
    this.leases.set(resource, made);
    return made;
  }

  /** What the trigger keep_floor does when a person deletes a row. */
  deleteLease(resource: string): void {
    const token = this.leases.get(resource)?.token ?? 0n;
    this.leases.delete(resource);
    if (token > this.floor) this.floor = token;
  }
}
