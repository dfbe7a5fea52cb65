// Which resources each session of this process may hold, with what its store wants to remember of each: so that the end of a
// session can wake their waiters at once, and it spares the server a second index. No more than a help: what is not here is found
// out by the clock, or by the guard.

/** Sessions that ended unheard of are forgotten, the oldest first. */
const SESSIONS_MAX = 1_000;

export class Holdings<Held> {
  readonly #sessions = new Map<string, Map<string, Held>>();

  add(sessionId: string, resource: string, held: Held): void {
    let resources = this.#sessions.get(sessionId);
    if (resources === undefined) {
      resources = new Map();
      this.#sessions.set(sessionId, resources);
      const [oldest] = this.#sessions.keys();
      if (this.#sessions.size > SESSIONS_MAX && oldest !== undefined) this.#sessions.delete(oldest);
    }
    resources.set(resource, held);
  }

  get(sessionId: string, resource: string): Held | undefined {
    return this.#sessions.get(sessionId)?.get(resource);
  }

  /** What the session may hold. */
  of(sessionId: string): (readonly [resource: string, held: Held])[] {
    return [...(this.#sessions.get(sessionId) ?? [])];
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
