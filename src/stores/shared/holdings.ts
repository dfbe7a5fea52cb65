// Which resources each session of this process may hold, and by which attempt, so that the end of a session can wake their
// waiters at once and a release can say exactly what it gives back. Nothing rests on it: a waiter that is not told finds out by
// the clock, and a release without the attempt takes the server a little longer. It spares the server a second index.

/** Sessions that ended unheard of are forgotten, the oldest first. */
const SESSIONS_MAX = 1_000;

export class Holdings {
  readonly #sessions = new Map<string, Map<string, string>>();

  add(sessionId: string, resource: string, attempt: string): void {
    let resources = this.#sessions.get(sessionId);
    if (resources === undefined) {
      resources = new Map();
      this.#sessions.set(sessionId, resources);
      const [oldest] = this.#sessions.keys();
      if (this.#sessions.size > SESSIONS_MAX && oldest !== undefined) this.#sessions.delete(oldest);
    }
    resources.set(resource, attempt);
  }

  attempt(sessionId: string, resource: string): string | undefined {
    return this.#sessions.get(sessionId)?.get(resource);
  }

  remove(sessionId: string, resource: string): void {
    this.#sessions.get(sessionId)?.delete(resource);
  }

  /** What the session may hold; forgotten from now on. */
  take(sessionId: string): readonly string[] {
    const resources = [...(this.#sessions.get(sessionId)?.keys() ?? [])];
    this.#sessions.delete(sessionId);
    return resources;
  }
}
