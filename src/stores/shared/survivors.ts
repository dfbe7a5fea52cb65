// What a failover or a restart left of a session's leases. The new server may have missed a grant and yet know the session
// that the lease belongs to. The session's renewals then succeed, and only the lease itself shows that it is gone. So the
// first renewal that is answered from another era asks which leases of the session are still there. Within an era nothing
// is asked. An era is identified by its floor (core/era.ts).

import type { LeaseRef } from "../contract.ts";
import { Holdings } from "./holdings.ts";

interface Held {
  readonly token: bigint;
  /** The floor of the newest era that is known to have the lease. */
  readonly floor: bigint;
}

/** Answers with the newest token of each of these resources that the session holds, by resource. */
export type AskKept = (resources: readonly string[]) => Promise<ReadonlyMap<string, bigint>>;

export class Survivors {
  readonly #holdings = new Holdings<Held>();
  /** Of the newest era that this process has seen. */
  #floor = 0n;

  /**
   * Notes the era of an answer. True when it is newer than all before: the server may have forgotten what it confirmed
   * earlier. An answer that comes late may be of an older one.
   */
  note(floor: bigint): boolean {
    if (floor <= this.#floor) return false;
    const isFirst = this.#floor === 0n;
    this.#floor = floor;
    return !isFirst;
  }

  /** Whether a grant is from an era that is over: its answer came late, and the new server may not know of it. */
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
    return this.#holdings.of(sessionId).map(([resource]) => resource);
  }

  forget(sessionId: string): void {
    this.#holdings.take(sessionId);
  }

  /** The leases of the session that are gone, now that this is the era. Each is reported once. */
  async missing(sessionId: string, floor: bigint, askKept: AskKept): Promise<LeaseRef[]> {
    const unsure = this.#holdings.of(sessionId).filter(([, held]) => held.floor !== floor);
    if (unsure.length === 0) return [];
    const kept = await askKept(unsure.map(([resource]) => resource));
    const missing: LeaseRef[] = [];
    for (const [resource, held] of unsure) {
      // Released while the question was under way.
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
