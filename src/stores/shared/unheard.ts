// What a session may have been granted without hearing of it: the answer never came, or a copy of the request comes late, even behind
// its withdrawal. The end of the session has to wake who waits for that too. No more than a help, as holdings.ts is: what is not here
// is found out by the clock.

import { StoreUnavailableError } from "../../core/errors.ts";
import type { AttemptRequest } from "../contract.ts";
import { Holdings } from "./holdings.ts";

/** Of one session; the oldest are forgotten first. */
const RESOURCES_MAX = 1_000;

export class Unheard {
  readonly #resources = new Holdings<true>();

  /** The request for a grant failed like this. */
  note({ sessionId, resource }: AttemptRequest, error: unknown): void {
    if (!(error instanceof StoreUnavailableError) || error.applied === "no") return;
    this.#resources.remove(sessionId, resource);
    this.#resources.add(sessionId, resource, true);
    const known = this.#resources.of(sessionId);
    const [oldest = [resource]] = known;
    if (known.length > RESOURCES_MAX) this.#resources.remove(sessionId, oldest[0]);
  }

  resourcesOf(sessionId: string): string[] {
    return this.#resources.of(sessionId).map(([resource]) => resource);
  }

  forget(sessionId: string): void {
    this.#resources.take(sessionId);
  }
}
