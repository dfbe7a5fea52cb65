// What this process knows of its own attempts: their places in the queues, which of them were granted, and of which a
// copy of the request may still be on its way. The last is what marks in etcd are for (grants.ts). Forgetting an attempt
// that is neither waiting nor in doubt costs nothing.

export interface Attempt {
  /** Since which revision it waits, where it does. */
  since: bigint | undefined;
  /** The resource has been free for so long that those before it need not be waited for. */
  overtakes: FirstInLine | undefined;
  /** Requests that were sent and whose fate is unknown: each may yet be carried out. */
  underWay: number;
  wasGranted: boolean;
}

/**
 * Who was the first in line when the resource had been free for so long. Whoever takes the resource removes that key, its own, or
 * changes it, as one who overtakes does: as long as it is as it was, nobody has held the resource since.
 */
export interface FirstInLine {
  readonly key: Buffer;
  readonly modRevision: bigint;
}

/** Per session; the oldest that are over go first. */
const REMEMBERED_MAX = 4_096;
/** Per session. A request that is still under way so many doubts later does not exist. */
const MARKS_MAX = 256;

export class Attempts {
  readonly #sessions = new Map<string, Map<string, Attempt>>();
  readonly #marks = new Map<string, Set<string>>();
  readonly #aliveUntil = new Map<string, number>();

  find(sessionId: string, attempt: string): Attempt | undefined {
    return this.#sessions.get(sessionId)?.get(attempt);
  }

  at(sessionId: string, attempt: string): Attempt {
    let attempts = this.#sessions.get(sessionId);
    if (attempts === undefined) {
      attempts = new Map();
      this.#sessions.set(sessionId, attempts);
    }
    let known = attempts.get(attempt);
    if (known === undefined) {
      known = { since: undefined, overtakes: undefined, underWay: 0, wasGranted: false };
      attempts.set(attempt, known);
      if (attempts.size > REMEMBERED_MAX) forgetOldest(attempts);
    }
    return known;
  }

  /** Notes that this attempt gets a mark. Returns the one whose mark may go for it, so that they do not pile up. */
  marked(sessionId: string, attempt: string): string | undefined {
    const marks = this.#marks.get(sessionId) ?? new Set();
    this.#marks.set(sessionId, marks.add(attempt));
    const [oldest] = marks;
    if (marks.size <= MARKS_MAX || oldest === undefined) return undefined;
    marks.delete(oldest);
    return oldest;
  }

  /** etcd has granted the session time until `instant`, at least. */
  keepSession(sessionId: string, instant: number): void {
    this.#aliveUntil.set(sessionId, instant);
  }

  /**
   * Forgets the sessions that have expired without a request that ended them: their holders stopped by their own clocks,
   * because etcd could not be reached, or never meant to renew.
   */
  forgetExpired(now: number): void {
    for (const [sessionId, until] of this.#aliveUntil)
      if (until < now) this.forgetSession(sessionId);
  }

  forgetSession(sessionId: string): void {
    this.#sessions.delete(sessionId);
    this.#marks.delete(sessionId);
    this.#aliveUntil.delete(sessionId);
  }
}

function forgetOldest(attempts: Map<string, Attempt>): void {
  for (const [name, { since, underWay }] of attempts) {
    if (since !== undefined || underWay > 0) continue;
    attempts.delete(name);
    return;
  }
}
