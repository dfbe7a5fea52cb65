// The resources that each session of this process may hold, with a value that the store attaches to
// each. With this list the end of a session can wake the waiters of its resources, and the server
// needs no index by session. Best effort: waiters of a resource that is missing here wake up when
// the session's ttl is over.

/** When there are more sessions, the oldest is dropped: its end was probably never reported. */
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

  list(sessionId: string): (readonly [resource: string, held: Held])[] {
    return [...(this.#sessions.get(sessionId) ?? [])];
  }

  remove(sessionId: string, resource: string): void {
    this.#sessions.get(sessionId)?.delete(resource);
  }

  /** Returns the resources of the session and forgets the session. */
  take(sessionId: string): readonly string[] {
    const resources = [...(this.#sessions.get(sessionId)?.keys() ?? [])];
    this.#sessions.delete(sessionId);
    return resources;
  }
}
