// What this process has observed of sessions, and the decision that a session has expired. A
// session has expired when its beat has not changed for a full ttl on the monotonic clock of this
// process, counted from when the answer with that beat arrived. It is then ended by a conditional
// write, and only an ended session loses its leases. If its owner renews it in between, the write
// fails.

import type { Clock } from "../../async/clock.ts";
import type { VersionedRecord } from "./backend.ts";
import type { Cells } from "./cells.ts";
import { type SessionRecord, sessionAt } from "./records.ts";

interface Observation {
  readonly beat: number;
  readonly ttlMs: number;
  readonly quietAfterMs: number;
  readonly ended: boolean;
  /** When this process first saw this beat. */
  readonly since: number;
  /** When it last saw it. */
  readonly readAt: number;
}

/** The session of a holder or waiter, as its lease record names it. */
export interface Named {
  readonly session: string;
  /** Applies if the record of the session is missing or malformed. */
  readonly ttlMs: number;
}

export interface ObservedParts {
  readonly cells: Cells;
  readonly clock: Clock;
  /** The error of the backend's clock, if its times may be used as evidence. */
  readonly clockErrorMs: number | undefined;
  /** A session that was read this recently is not read again. */
  readonly minPollMs: number;
}

/** The oldest observation is dropped when there are more. That can only delay an expiry. */
const OBSERVED_MAX = 10_000;

export class Observed {
  readonly #parts: ObservedParts;
  readonly #sessions = new Map<string, Observation>();

  constructor(parts: ObservedParts) {
    this.#parts = parts;
  }

  /** Takes what was read of a session, or written. */
  note(id: string, content: SessionRecord, record?: VersionedRecord): void {
    const before = this.#sessions.get(id);
    if (before?.ended === true) return;
    const { clock, clockErrorMs } = this.#parts;
    const { beat, ttlMs, quietAfterMs, ended } = content;
    const readAt = clock.now();
    // By default the age of a beat that is seen for the first time is unknown, so it is 0.
    const ageMs = clockErrorMs === undefined ? 0 : (record?.ageMs ?? 0) - clockErrorMs;
    const since = before?.beat === beat ? before.since : readAt - Math.max(0, ageMs);
    this.#sessions.delete(id);
    this.#sessions.set(id, { beat, ttlMs, quietAfterMs, ended, since, readAt });
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > OBSERVED_MAX && oldest !== undefined) this.#sessions.delete(oldest);
  }

  isKnownEnded(id: string): boolean {
    return this.#sessions.get(id)?.ended === true;
  }

  /** The time until the session expires by what this process knows. Never below 0. */
  expiresInMs(named: Named): number {
    const seen = this.#sessions.get(named.session);
    const ttlMs = seen?.ttlMs || named.ttlMs;
    const since = seen?.since ?? this.#parts.clock.now();
    return Math.max(0, since + ttlMs - this.#parts.clock.now());
  }

  /**
   * Whether the session has ended. Ends it if it has expired. Reads its record if that was read
   * more than `maxAgeMs` ago.
   */
  async hasEnded(named: Named, endsAt: number, maxAgeMs: number): Promise<boolean> {
    const seen = this.#sessions.get(named.session);
    if (seen?.ended === true) return true;
    if (seen !== undefined && this.expiresInMs(named) === 0) return this.#end(named, endsAt);
    const isRecent = seen !== undefined && this.#parts.clock.now() - seen.readAt <= maxAgeMs;
    if (isRecent) return false;
    await this.#parts.cells.read(sessionAt(named.session), endsAt);
    if (this.isKnownEnded(named.session)) return true;
    // Only with a clock of the backend can a session be found expired at first sight.
    return this.expiresInMs(named) === 0 && this.#end(named, endsAt);
  }

  /**
   * Whether the session is alive and has been renewed recently, as far as this process knows. Its
   * record is read only if it seems quiet. A session that has expired is ended.
   */
  async isActive(named: Named, endsAt: number): Promise<boolean> {
    if (this.#isFresh(named)) return true;
    const isOver = await this.hasEnded(named, endsAt, this.#parts.minPollMs);
    return !isOver && this.#isFresh(named);
  }

  #isFresh(named: Named): boolean {
    const seen = this.#sessions.get(named.session);
    if (seen === undefined || seen.ended) return false;
    const quietAfterMs = seen.quietAfterMs || named.ttlMs;
    return this.#parts.clock.now() - seen.since < quietAfterMs;
  }

  /** True if the session has ended. False if it turned out to be alive. */
  #end(named: Named, endsAt: number): Promise<boolean> {
    const place = sessionAt(named.session);
    return this.#parts.cells.change(place, endsAt, (content) => {
      if (content.ended) return { answer: true };
      // Checked again for every state that is found: a renewal makes the session live on.
      const isUnchanged = this.#sessions.get(named.session)?.beat === content.beat;
      if (!isUnchanged || this.expiresInMs(named) > 0) return { answer: false };
      return { write: toEnded(content, named.ttlMs), answer: true };
    });
  }
}

/** The marker of a session that has ended. */
export function toEnded(content: SessionRecord, ttlMs: number): SessionRecord {
  const { holderId, beat } = content;
  const facts = { holderId, ttlMs, quietAfterMs: ttlMs, beat: Math.max(0, beat) };
  return { ...facts, ended: true, revoked: [], wanted: [] };
}
