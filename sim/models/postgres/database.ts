// The tables of src/stores/postgres/schema.ts as maps. Times are whole microseconds of the server's
// wall clock, as in PostgreSQL. A statement runs alone and at one instant, so there are no locks
// and no snapshots.

import { higher } from "../../../src/core/era.ts";
import type { Ending } from "../../world/trace.ts";

export interface SessionRow {
  readonly id: string;
  readonly holderId: string;
  readonly ttlMs: number;
  readonly quietAfterMs: number;
  readonly channel: string;
  expires: number;
  ended: number | undefined;
}

export interface LeaseRow {
  readonly resource: string;
  token: bigint;
  session: string | undefined;
  attempt: string;
  record: string;
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
  readonly holderId: string;
  readonly rank: number;
  readonly record: string;
}

export interface HandoffRow {
  readonly session: string;
  readonly resource: string;
  readonly attempt: string;
  readonly token: bigint;
}

export interface RevocationRow {
  readonly session: string;
  readonly resource: string;
  readonly token: bigint;
}

/** Is notified of each change where it is applied. */
interface Witness {
  granted(lease: LeaseRow): void;
  /** The lease was held until now. */
  freed(lease: LeaseRow, how: Ending): void;
  kept(session: SessionRow): void;
}

export interface DatabaseParts {
  readonly witness: Witness;
  /** clock_timestamp(). */
  now(): number;
  /** pg_notify() */
  notify(channel: string, payload: string): void;
  /** Whether another transaction has locked this row, so that SKIP LOCKED skips it. */
  isLocked(): boolean;
}

/** The rows that a standby has replicated. */
export interface Copy {
  /** pg_last_xact_replay_timestamp(): when the newest of these commits was made. */
  readonly at: number;
  readonly era: Era;
  readonly sessions: ReadonlyMap<string, SessionRow>;
  readonly leases: ReadonlyMap<string, LeaseRow>;
  readonly waiters: ReadonlyMap<string, WaiterRow>;
  readonly handoffs: ReadonlyMap<string, HandoffRow>;
  readonly revocations: readonly RevocationRow[];
  readonly watchers: ReadonlyMap<string, number>;
}

export class Database {
  /** Stands for pg_postmaster_start_time(): unique to each server process. */
  server = 1;
  /** Set on a promoted standby. */
  replayedAt: number | undefined;
  /** The schema was created long ago, so every standby has it. */
  hasSchema = false;
  era: Era = { server: 0, floor: 0n };
  sessions: Map<string, SessionRow> = new Map();
  leases: Map<string, LeaseRow> = new Map();
  /** By attempt, in the order of arrival: a place is never reused. */
  waiters: Map<string, WaiterRow> = new Map();
  /** By session and resource. */
  handoffs: Map<string, HandoffRow> = new Map();
  revocations: RevocationRow[] = [];
  /** When each watcher's registration ends, by channel. */
  watchers: Map<string, number> = new Map();
  readonly parts: DatabaseParts;

  constructor(parts: DatabaseParts) {
    this.parts = parts;
  }

  copy(): Copy {
    const { era, sessions, leases, waiters, handoffs, revocations, watchers } = this;
    const at = this.parts.now();
    return structuredClone({
      at,
      era,
      sessions,
      leases,
      waiters,
      handoffs,
      revocations,
      watchers,
    });
  }

  /** Promotes a standby that has only this copy. */
  promote({ at, ...rows }: Copy): void {
    this.restart();
    this.replayedAt = at;
    Object.assign(this, structuredClone(rows));
  }

  /** Starts another server process on the same data. */
  restart(): void {
    this.server += 1;
  }

  insertLease(resource: string, queued: boolean): LeaseRow {
    const made: LeaseRow = {
      resource,
      token: 0n,
      session: undefined,
      attempt: "",
      record: "",
      queued,
      granted: undefined,
    };
    this.leases.set(resource, made);
    return made;
  }

  /** Does what the trigger raise_floor does when a person deletes a row. */
  deleteLease(resource: string): void {
    const token = this.leases.get(resource)?.token;
    if (token === undefined) return;
    this.leases.delete(resource);
    const { server, floor } = this.era;
    this.era = { server, floor: higher(token, floor) + 1n };
  }
}
