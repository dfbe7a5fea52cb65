// One shared session for each set of timing numbers, opened when it is first needed: a thousand leases of one process
// are renewed by one request, and the caller does nothing for it.

import type { Clock, ClockJump, Random } from "../async/clock.ts";
import { withLimit } from "../async/waits.ts";
import { StoreUnavailableError } from "../core/errors.ts";
import { checkTiming, type Timing } from "../core/timing.ts";
import type { Store } from "../stores/contract.ts";
import { Session } from "./session.ts";

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
    const current = this.#current.get(keyOf(timing));
    return current?.look(this.#parts.clock.now()) ? current : undefined;
  }

  /** The live session with this timing; opens one where there is none. Callers at the same time share the opening. */
  live(timing: Timing): Promise<Session> {
    const current = this.current(timing);
    if (current !== undefined) return Promise.resolve(current);
    const key = keyOf(timing);
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

  /** Whether one of them has a lease on the resource. */
  hold(resource: string): boolean {
    return this.all().some((session) => session.holds(resource));
  }

  /** Ends every session. Those that work still runs under are left to their ttl. */
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
    const request = { sessionId, holderId, ttlMs: timing.ttlMs, limitMs };
    const jumps = new Set<ClockJump>();
    const stopListening = clock.onJump((jump) => jumps.add(jump));
    try {
      const sentAt = clock.now();
      const opened = await withLimit(clock, limitMs, "opening of a session", () =>
        store.openSession(request),
      );
      // What counts is the ttl that the store granted; a shorter one may not leave room for a lost renewal.
      checkTiming({ ...timing, ttlMs: opened.ttlMs });
      const session = new Session(
        { ...this.#parts, timing },
        { sessionId, sentAt, grantedTtlMs: opened.ttlMs },
      );
      // A jump since the sending makes `sentAt` worthless or doubtful. The session itself listens only from here on.
      if (jumps.has("certain")) session.close(false);
      else if (jumps.has("possible")) session.jumped("possible");
      if (session.end === undefined) return session;
    } finally {
      stopListening();
    }
    throw new StoreUnavailableError(
      "The store took so long to open a session that its time was over.",
      {
        applied: "unknown",
      },
    );
  }
}

/** Most acquisitions name the same timing object, that of the defaults. */
const keys = new WeakMap<Timing, string>();

function keyOf(timing: Timing): string {
  const known = keys.get(timing);
  if (known !== undefined) return known;
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = timing;
  const key = [ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs].join("/");
  keys.set(timing, key);
  return key;
}
