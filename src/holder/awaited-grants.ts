// The grants that the acquisitions of one session await. The session passes on what the store
// reports, by a notification or in the answer to a renewal. This file wakes the acquisition, and
// keeps what the next renewal has to say about grants.

import { ACKNOWLEDGED_MAX, type Grant, type LeaseRef } from "../stores/contract.ts";

/** An attempt of an acquisition in progress, which the store may grant at any time. */
export interface AwaitedGrant {
  readonly attempt: string;
  /** The token, once the store has reported the grant. */
  token: bigint | undefined;
  /** The store has confirmed that the attempt is in the queue. */
  isQueued: boolean;
  /** Called when the store reports the grant, or when the request must be repeated. */
  wake: (() => void) | undefined;
}

/** What one renewal says about grants. Its answer is compared with this. */
export interface GrantReport {
  /** Grants of a handoff that the session still has. */
  readonly accepted: readonly LeaseRef[];
  /** The attempts that the store had confirmed as queued. */
  readonly queued: readonly AwaitedGrant[];
}

export class AwaitedGrants {
  readonly #awaited = new Map<string, AwaitedGrant>();
  /** Leases granted by a handoff that no renewal has accepted yet, by resource. */
  readonly #unaccepted = new Map<string, LeaseRef>();

  begin(attempt: string): AwaitedGrant {
    const awaited = { attempt, token: undefined, isQueued: false, wake: undefined };
    this.#awaited.set(attempt, awaited);
    return awaited;
  }

  end({ attempt }: AwaitedGrant): void {
    this.#awaited.delete(attempt);
  }

  /** Passes a reported grant on. False: no acquisition awaits it. */
  deliver({ resource, token, attempt }: Grant): boolean {
    const awaited = this.#awaited.get(attempt);
    if (awaited === undefined) return false;
    awaited.token = token;
    this.#unaccepted.set(resource, { resource, token });
    awaited.wake?.();
    return true;
  }

  /** The report of the next renewal. `isHeld`: whether the session still has the lease. */
  prepareReport(isHeld: (ref: LeaseRef) => boolean): GrantReport {
    for (const ref of this.#unaccepted.values())
      if (!isHeld(ref)) this.#unaccepted.delete(ref.resource);
    return {
      accepted: [...this.#unaccepted.values()].slice(0, ACKNOWLEDGED_MAX),
      queued: [...this.#awaited.values()].filter(({ isQueued }) => isQueued),
    };
  }

  /**
   * The renewal was answered, and the grants in the answer are delivered. `waiting`: how many
   * attempts the store has in its queues. If that is fewer than it had confirmed, it has lost some
   * of them, and all requests are repeated.
   */
  confirmReport(
    { accepted, queued }: GrantReport,
    waiting: number = Number.POSITIVE_INFINITY,
  ): void {
    for (const ref of accepted)
      if (this.#unaccepted.get(ref.resource) === ref) this.#unaccepted.delete(ref.resource);
    const still = queued.filter(
      (awaited) => awaited.token === undefined && this.#awaited.has(awaited.attempt),
    );
    if (waiting < still.length) for (const { wake } of still) wake?.();
  }
}
