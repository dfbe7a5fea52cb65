// The tables of src/stores/postgres/schema.ts as maps. Times are whole microseconds of the server's wall clock, as PostgreSQL
// has them. A statement runs at one instant and alone, so there are no locks and no snapshots here.

import { higher } from "../../../src/core/era.ts";
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
  granted: number | undefined;
}

export interface Era {
  readonly server: number;
  readonly floor: bigint;
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
  /** When the newest of these commits was made: pg_last_xact_replay_timestamp(). */
  readonly at: number;
  readonly era: Era;
  readonly sessions: ReadonlyMap<string, SessionRow>;
  readonly leases: ReadonlyMap<string, LeaseRow>;
  readonly waiters: ReadonlyMap<string, WaiterRow>;
  readonly revocations: readonly RevocationRow[];
  readonly watchers: ReadonlyMap<string, number>;
}

export class Database {
  /** pg_postmaster_start_time(), or anything else that no two server processes share. */
  server = 1;
  /** Of a standby that was promoted. */
  replayedAt: number | undefined;
  /** Made long before: every standby has it. */
  hasSchema = false;
  era: Era = { server: 0, floor: 0n };
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
    const { era, sessions, leases, waiters, revocations, watchers } = this;
    const at = this.parts.now();
    return structuredClone({ at, era, sessions, leases, waiters, revocations, watchers });
  }

  /** A standby that has only this is promoted. */
  promote({ at, ...rows }: Copy): void {
    this.restart();
    this.replayedAt = at;
    Object.assign(this, structuredClone(rows));
  }

  /** Another server process, on the same data. */
  restart(): void {
    this.server += 1;
  }

  insertLease(resource: string): LeaseRow {
    const made: LeaseRow = {
      ...{ resource, token: 0n, session: undefined, attempt: "", record: "" },
      ...{ freed: Number.NEGATIVE_INFINITY, queued: false, granted: undefined },
    };
    this.leases.set(resource, made);
    return made;
  }

  /** What the trigger raise_floor does when a person deletes a row. */
  deleteLease(resource: string): void {
    const token = this.leases.get(resource)?.token;
    if (token === undefined) return;
    this.leases.delete(resource);
    const { server, floor } = this.era;
    this.era = { server, floor: higher(token, floor) + 1n };
  }
}
