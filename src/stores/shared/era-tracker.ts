// Finds the leases of a session that a failover or restart has lost. The new server may have missed
// a grant and still know the session of the lease. Renewals of the session then succeed although
// the lease is gone. Therefore the first renewal that is answered in a new era asks which leases of
// the session still exist. Within an era nothing is asked. An era is identified by its floor
// (core/era.ts).

import type { LeaseRef } from "../contract.ts";
import { Holdings } from "./holdings.ts";

interface Held {
  readonly token: bigint;
  /** The floor of the newest era in which the lease is known to exist. */
  readonly floor: bigint;
}

/** Returns, by resource, the tokens of those resources that the session still holds. */
export type AskKept = (resources: readonly string[]) => Promise<ReadonlyMap<string, bigint>>;

export class EraTracker {
  readonly #holdings = new Holdings<Held>();
  /** The floor of the newest era that this process has seen. */
  #floor = 0n;

  /**
   * Records the era of an answer. True if it is newer than all earlier ones: the server may have
   * lost what it confirmed before. A late answer may be from an older era.
   */
  note(floor: bigint): boolean {
    if (floor <= this.#floor) return false;
    const isFirst = this.#floor === 0n;
    this.#floor = floor;
    return !isFirst;
  }

  /**
   * Whether a grant is from an earlier era: its answer came late, and the new server may not have
   * it.
   */
  isOutdated(token: bigint): boolean {
    return token < this.#floor;
  }

  add(sessionId: string, { resource, token }: LeaseRef): void {
    this.#holdings.add(sessionId, resource, { token, floor: this.#floor });
  }

  remove(sessionId: string, { resource, token }: LeaseRef): void {
    if (this.#holdings.get(sessionId, resource)?.token === token)
      this.#holdings.remove(sessionId, resource);
  }

  resourcesOf(sessionId: string): string[] {
    return this.#holdings.list(sessionId).map(([resource]) => resource);
  }

  forget(sessionId: string): void {
    this.#holdings.take(sessionId);
  }

  /** The leases of the session that do not exist in this era. Each is reported once. */
  async missing(sessionId: string, floor: bigint, askKept: AskKept): Promise<LeaseRef[]> {
    const unsure = this.#holdings.list(sessionId).filter(([, held]) => held.floor !== floor);
    if (unsure.length === 0) return [];
    const kept = await askKept(unsure.map(([resource]) => resource));
    const missing: LeaseRef[] = [];
    for (const [resource, held] of unsure) {
      // It was released while the request was in flight.
      if (this.#holdings.get(sessionId, resource) !== held) continue;
      const { token } = held;
      if (kept.get(resource) === token) {
        this.#holdings.add(sessionId, resource, { token, floor });
      } else {
        this.#holdings.remove(sessionId, resource);
        missing.push({ resource, token });
      }
    }
    return missing;
  }
}
