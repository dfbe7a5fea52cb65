// Which resources each session of this process may hold, so that the end of a session can wake their waiters at once.
// Nothing rests on it: a waiter that is not told finds out by the clock. Keeping it here spares the server a second index.

/** Sessions that ended unheard of are forgotten, the oldest first. */
const SESSIONS_MAX = 1_000;

export class Holdings {
  readonly #sessions = new Map<string, Set<string>>();

  add(sessionId: string, resource: string): void {
    let resources = this.#sessions.get(sessionId);
    if (resources === undefined) {
      resources = new Set();
      this.#sessions.set(sessionId, resources);
      const [oldest] = this.#sessions.keys();
      if (this.#sessions.size > SESSIONS_MAX && oldest !== undefined) this.#sessions.delete(oldest);
    }
    resources.add(resource);
  }

  remove(sessionId: string, resource: string): void {
    this.#sessions.get(sessionId)?.delete(resource);
  }

  /** What the session may hold; forgotten from now on. */
  take(sessionId: string): readonly string[] {
    const resources = [...(this.#sessions.get(sessionId) ?? [])];
    this.#sessions.delete(sessionId);
    return resources;
  }
}
