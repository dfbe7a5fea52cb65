// The sessions of one process: one for each set of timing numbers, opened when first needed. All
// leases with the same timing share a session, so one request renews a thousand leases.

import type { Clock, ClockJump, Random } from "../async/clock.ts";
import { withLimit } from "../async/waits.ts";
import { StoreUnavailableError } from "../core/errors.ts";
import { checkTiming, type Timing } from "../core/timing.ts";
import type { SessionEvents, Store } from "../stores/contract.ts";
import { Session, type SessionMember } from "./session.ts";

export interface SessionsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  readonly keepAlive: boolean;
}

export class Sessions {
  readonly #parts: SessionsParts;
  readonly #current = new Map<string, Session>();
  readonly #opening = new Map<string, Promise<Session>>();

  constructor(parts: SessionsParts) {
    this.#parts = parts;
  }

  /** The live session with this timing, if there is one. */
  current(timing: Timing): Session | undefined {
    const current = this.#current.get(toKey(timing));
    return current?.checkDeadline(this.#parts.clock.now()) ? current : undefined;
  }

  /**
   * The live session with this timing. Opens one if needed; concurrent callers share the opening.
   */
  live(timing: Timing): Promise<Session> {
    const current = this.current(timing);
    if (current !== undefined) return Promise.resolve(current);
    const key = toKey(timing);
    let opening = this.#opening.get(key);
    if (opening === undefined) {
      opening = this.#open(timing)
        .then((session) => {
          this.#keep(key, session);
          return session;
        })
        .finally(() => this.#opening.delete(key));
      this.#opening.set(key, opening);
    }
    return opening;
  }

  /** Whether this process has a lease on the resource. */
  holds(resource: string): boolean {
    return this.all().some((session) => session.holds(resource));
  }

  /** Whether this lease belongs to one of these sessions and has not ended. */
  include(member: SessionMember): boolean {
    const now = this.#parts.clock.now();
    return this.all().some((session) => session.checkDeadline(now) && session.includes(member));
  }

  /** Ends every session. A session with leases in use is left to expire by its ttl. */
  async close(): Promise<void> {
    const sessions = this.all();
    for (const session of sessions) session.close([...session.members].length > 0);
    await Promise.all(sessions.map((session) => session.ending));
  }

  /** Every session that has not ended. */
  all(): Session[] {
    return [...this.#current.values()];
  }

  #keep(key: string, session: Session): void {
    this.#current.set(key, session);
    const drop = (): void => {
      if (this.#current.get(key) === session) this.#current.delete(key);
    };
    session.endSignal.addEventListener("abort", drop, { once: true });
  }

  async #open(timing: Timing): Promise<Session> {
    const { store, clock, random, holderId } = this.#parts;
    const sessionId = random.id();
    const limitMs = timing.roundTripMs;
    const quietAfterMs = timing.renewEveryMs + timing.roundTripMs;
    let opening: Session | undefined;
    const events: SessionEvents = {
      granted: (grant) => opening?.granted(grant),
      lost: (ref) => opening?.lost(ref),
      wanted: (ref) => opening?.wanted(ref),
    };
    const request = { sessionId, holderId, ttlMs: timing.ttlMs, quietAfterMs, events, limitMs };
    const jumps = new Set<ClockJump>();
    // This reading reports a jump that happened earlier. Only later ones concern the session.
    clock.now();
    const stopListening = clock.onJump((jump) => jumps.add(jump));
    try {
      const sentAt = clock.now();
      const opened = await withLimit(clock, limitMs, "opening of a session", () =>
        store.openSession(request),
      );
      // The store may grant a shorter ttl, which may not leave room for a lost renewal.
      checkTiming({ ...timing, ttlMs: opened.ttlMs });
      const session = new Session(
        { ...this.#parts, timing },
        { sessionId, sentAt, grantedTtlMs: opened.ttlMs },
      );
      opening = session;
      // A clock jump since `sentAt` makes the deadline wrong or doubtful. The session itself
      // listens only from now on.
      if (jumps.has("certain")) session.close(false);
      else if (jumps.has("possible")) session.jumped("possible");
      if (session.end === undefined) return session;
    } finally {
      stopListening();
    }
    throw new StoreUnavailableError(
      "The store took so long to open a session that the session had expired.",
      { applied: "unknown" },
    );
  }
}

/** Cached because most acquisitions use the same timing object, that of the defaults. */
const keys = new WeakMap<Timing, string>();

function toKey(timing: Timing): string {
  const known = keys.get(timing);
  if (known !== undefined) return known;
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = timing;
  const key = [ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs].join("/");
  keys.set(timing, key);
  return key;
}
