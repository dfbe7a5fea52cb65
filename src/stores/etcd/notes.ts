// Watches the notes that other processes write for the sessions of this process: a lease was
// revoked, or an attempt waits for it. One watch per session, however many leases it has. It is
// opened when a lease has been held for a moment, so short leases cost no watch. Renewals read the
// same notes. At the same time, the record of a lease that was handed off gets the time of its
// grant, because no process has written anything at that moment.

import type { Clock } from "../../async/clock.ts";
import type { EtcdClient } from "../../clients/etcd/client.ts";
import { range, txn } from "../../clients/etcd/rpc.ts";
import type { Watches } from "../../clients/etcd/watches.ts";
import { stampTxn } from "./grant.ts";
import { type Noted, readNotes } from "./renew.ts";
import type { Session } from "./session.ts";

/** Leases that are held for less than this are not watched. */
const WATCH_AFTER_MS = 25;
/** The limit of requests that no caller waits for. */
const LIMIT_MS = 5_000;

export interface NotesParts {
  readonly client: EtcdClient;
  readonly watches: Watches;
  readonly clock: Clock;
}

export class Notes {
  readonly #parts: NotesParts;

  constructor(parts: NotesParts) {
    this.#parts = parts;
  }

  /** The session has a new lease. */
  held(session: Session): void {
    const { events, closeWatch, unstamped, isEnded } = session;
    const isWatched = closeWatch !== undefined || events === undefined;
    if (isEnded || (isWatched && unstamped.size === 0)) return;
    session.timer ??= this.#parts.clock.setTimer(() => this.#check(session), WATCH_AFTER_MS);
  }

  end(session: Session): void {
    session.timer?.cancel();
    session.closeWatch?.();
  }

  /** Reports notes. Those about a lease that the session does not have any more are old. */
  deliver(session: Session, { gone, wanted }: Noted): void {
    for (const ref of gone) {
      const lease = session.findLease(ref);
      if (lease !== undefined) session.end(lease);
      session.events?.lost(ref);
    }
    for (const ref of wanted) if (session.findLease(ref) !== undefined) session.events?.wanted(ref);
  }

  #check(session: Session): void {
    session.timer = undefined;
    const since = this.#parts.clock.now() - WATCH_AFTER_MS;
    for (const lease of session.unstamped) {
      if (lease.heldSince > since) continue;
      session.unstamped.delete(lease);
      const wallMs = this.#parts.clock.wallNow() - WATCH_AFTER_MS;
      const stamping = this.#parts.client.call(txn, stampTxn(lease, wallMs), { limitMs: LIMIT_MS });
      // The time of the grant is only for display.
      stamping.catch(() => undefined);
    }
    const [oldest] = session.held.values();
    if (oldest === undefined) return;
    if (oldest.heldSince <= since && session.events !== undefined)
      session.closeWatch ??= this.#watch(session);
    this.held(session);
  }

  #watch(session: Session): () => void {
    return this.#parts.watches.open(session.names.span, undefined, {
      // Notes may have been written before the watch began.
      onBegin: () => void this.#read(session),
      onEvents: (events) => {
        const written = events.filter(({ isDelete }) => !isDelete).map(({ kv }) => kv);
        this.deliver(session, readNotes(session.names, written));
      },
      onLost: () => {
        session.closeWatch = this.#watch(session);
      },
    });
  }

  async #read(session: Session): Promise<void> {
    try {
      const question = session.names.span;
      const { kvs } = await this.#parts.client.call(range, question, { limitMs: LIMIT_MS });
      this.deliver(session, readNotes(session.names, kvs));
    } catch {
      // The next renewal reads the notes.
    }
  }
}
