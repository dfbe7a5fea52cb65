// Grants whose reply was lost. The request may have been granted, or a late copy of it may be
// granted after its withdrawal. Ending the session must also wake the waiters of those resources.
// Best effort: waiters that are missed wake up when the session's ttl is over.

import { StoreUnavailableError } from "../../core/errors.ts";
import type { AttemptRequest } from "../contract.ts";
import { Holdings } from "./holdings.ts";

/** Per session. When there are more, the oldest is dropped. */
const RESOURCES_MAX = 1_000;

export class UnacknowledgedGrants {
  readonly #resources = new Holdings<true>();

  /** Records a grant request that failed, if the error leaves open whether it was applied. */
  note({ sessionId, resource }: AttemptRequest, error: unknown): void {
    if (!(error instanceof StoreUnavailableError) || error.applied === "no") return;
    this.#resources.remove(sessionId, resource);
    this.#resources.add(sessionId, resource, true);
    const known = this.#resources.list(sessionId);
    const [oldest = [resource]] = known;
    if (known.length > RESOURCES_MAX) this.#resources.remove(sessionId, oldest[0]);
  }

  resourcesOf(sessionId: string): string[] {
    return this.#resources.list(sessionId).map(([resource]) => resource);
  }

  forget(sessionId: string): void {
    this.#resources.take(sessionId);
  }
}
