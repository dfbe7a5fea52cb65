// Simulates the PostgreSQL server. Each statement is a transaction of its own, atomic at one
// instant of the server's wall clock. Notifications leave at commit, for the connections that
// listen at that moment. The file also covers the server's restarts and failovers.

import type { Row, SqlValue } from "../../../src/clients/postgres/link.ts";
import type { Program } from "../../world/program.ts";
import type { Ending, Trace } from "../../world/trace.ts";
import type { Forgetful } from "../outage.ts";
import { type Copy, Database, type LeaseRow, type SessionRow } from "./database.ts";
import { runStatement } from "./statements.ts";

/** The server's side of a connection. */
export interface Backend {
  readonly client: Program;
  /** Sends a notification. Called while the connection listens. */
  notify(payload: string): void;
  /** Ends the connection. If `abruptly`, data that the client has not received yet is lost. */
  drop(abruptly: boolean): void;
}

/** How often SKIP LOCKED finds a row locked by a transaction outside this world. */
const LOCKED = 0.05;

/**
 * What docs/stores/postgres.md promises of a database that lost commits or whose clock was set. The
 * new era keeps tokens increasing. Holders learn from their renewals which leases are gone, and
 * release again the ones that were restored. It does not promise S3, because a session may end
 * before the holder's deadline. It does not promise that a scheduled job runs once, because its
 * marker may be among the lost rows. It does not promise L1 after the clock was set back, because
 * every session then lives that much longer.
 */
const KEPT = ["S1", "S4", "S5", "S6", "L3", "L4", "requests", "errors"];
const KEEPS = { failover: [...KEPT, "L1"], clock: KEPT };

export class PgServer implements Forgetful<Copy> {
  readonly keeps: Forgetful<Copy>["keeps"] = KEEPS;
  readonly #program: Program;
  readonly #trace: Trace;
  readonly #db: Database;
  /** The data when the primary was started last. */
  #atStart: Copy | undefined;
  readonly #backends = new Set<Backend>();
  /** The channel of each connection that listens. */
  readonly #listening = new Map<Backend, string>();
  /** Notifications of the running transaction. PostgreSQL sends equal ones only once. */
  readonly #notes = new Map<string, { readonly channel: string; readonly payload: string }>();

  constructor(program: Program, trace: Trace) {
    this.#program = program;
    this.#trace = trace;
    const { clocks, chance } = program;
    this.#db = new Database({
      witness: this,
      now: () => Math.floor(clocks.wallNow() * 1000),
      notify: (channel, payload) => this.#notes.set(`${channel} ${payload}`, { channel, payload }),
      isLocked: () => chance.isTrue(LOCKED),
    });
  }

  open(backend: Backend): void {
    this.#backends.add(backend);
  }

  close(backend: Backend): void {
    this.#backends.delete(backend);
    this.#listening.delete(backend);
  }

  execute(backend: Backend, text: string, values: readonly SqlValue[]): readonly Row[] {
    const [, channel] = /^LISTEN "(.*)"$/.exec(text) ?? [];
    if (channel !== undefined) {
      this.#listening.set(backend, channel);
      return [];
    }
    if (text === "SELECT 1") return [{}];
    const rows = runStatement(this.#db, text, values);
    this.#commit();
    return rows;
  }

  /**
   * Returns from an outage, either as the same server or as a promoted standby that had every
   * commit (synchronous replication).
   */
  restart(): void {
    const isFailover = this.#program.chance.isTrue(0.5);
    this.#trace.countModelEvent(isFailover ? "a standby took over" : "the same server again");
    this.#atStart = this.#db.copy();
    this.#db.restart();
    this.#dropAll(isFailover);
  }

  copy(): Copy {
    return this.#db.copy();
  }

  failOver(replicated: Copy): void {
    const { leases, sessions } = this.#db;
    // A standby that missed two starts of the primary, and so two eras, can grant lower tokens
    // (docs/stores/postgres.md).
    const hasMissedTwo = replicated.era.server < (this.#atStart?.era.server ?? 0);
    this.#db.promote(hasMissedTwo && this.#atStart !== undefined ? this.#atStart : replicated);
    this.#atStart = undefined;
    // These grants ended without a request, like a revocation, and holders must learn of them in
    // the same way.
    for (const lease of leases.values())
      if (lease.session !== undefined && !isIn(this.#db.leases, lease))
        this.freed(lease, "revoked");
    for (const lease of this.#db.leases.values())
      if (lease.session !== undefined && !isIn(leases, lease)) this.#restored(lease);
    for (const session of sessions.values())
      if (!this.#db.sessions.has(session.id))
        this.kept({ ...session, expires: this.#db.parts.now() });
    this.clockWasSet();
    this.#dropAll(true);
  }

  /** Notes the new end of every session. */
  clockWasSet(): void {
    for (const session of this.#db.sessions.values())
      if (session.ended === undefined) this.kept(session);
  }

  granted({ resource, token, session = "", attempt }: LeaseRow): void {
    this.#trace.note("store", { kind: "storeGranted", resource, token, session, attempt });
  }

  freed({ resource, token }: LeaseRow, how: Ending): void {
    this.#trace.note("store", { kind: "storeFreed", resource, token, how });
  }

  kept({ id: session, expires }: SessionRow): void {
    const { clocks } = this.#program;
    // Until the wall clock is set, it runs at the rate of the monotonic clock.
    const until = clocks.trueInstant(clocks.now() + expires / 1000 - clocks.wallNow());
    this.#trace.note("store", { kind: "storeKept", session, until });
  }

  #restored({ resource, token }: LeaseRow): void {
    this.#trace.note("store", { kind: "storeRestored", resource, token });
  }

  #dropAll(abruptly: boolean): void {
    for (const backend of [...this.#backends]) {
      this.close(backend);
      backend.drop(abruptly);
    }
  }

  #commit(): void {
    if (this.#notes.size === 0) return;
    for (const [backend, listensTo] of [...this.#listening]) {
      // The kernel of a killed process has closed its connections.
      if (backend.client.isDead) this.close(backend);
      else
        for (const { channel, payload } of this.#notes.values())
          if (channel === listensTo) backend.notify(payload);
    }
    this.#notes.clear();
  }
}

/** Whether these leases include this grant. */
function isIn(
  leases: ReadonlyMap<string, LeaseRow>,
  { resource, token, session }: LeaseRow,
): boolean {
  const known = leases.get(resource);
  return known?.token === token && known.session === session;
}
