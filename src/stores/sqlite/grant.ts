// Decides which session holds a lease, by the rule of queue-policy.ts. Each request of the contract
// is one method, which runs inside a transaction. `memory/backend.ts` does the same without a file.
// The methods collect what they did to sessions as facts, and store.ts reports them after the
// commit.

import { clockToken } from "../../core/era.ts";
import { encodeRecord, shownRecord } from "../../core/record.ts";
import type {
  AttemptRequest,
  GrantOutcome,
  GrantRequest,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeRequest,
} from "../contract.ts";
import type { Fact } from "../shared/facts.ts";
import { isHeld, type LeaseRow, type Moment, type Tables } from "./tables.ts";

export interface GrantsParts {
  readonly tables: Tables;
  /** The wall clock in milliseconds. */
  wallNow(): number;
}

/** The requests of one transaction. */
export class Grants {
  readonly facts: Fact[] = [];
  readonly #tables: Tables;
  readonly #parts: GrantsParts;
  readonly #at: Moment;

  constructor(parts: GrantsParts, at: Moment) {
    this.#tables = parts.tables;
    this.#parts = parts;
    this.#at = at;
  }

  grant(request: GrantRequest): GrantOutcome {
    const { resource, attempt, sessionId: session, holderId, value, rank = 0 } = request;
    const { isAlive, isWanted, lease } = this.#find(request);
    if (!isAlive) return { kind: "gone" };
    // A repeated request: its first copy was granted.
    if (lease?.attempt === attempt)
      return lease.session === session
        ? { kind: "granted", token: lease.token }
        : { kind: "ended" };
    const record = encodeRecord({ holderId, sessionId: session, attempt, value });
    if (!isHeld(lease, this.#at) && !isWanted) {
      const token = this.#write({ resource, session, attempt, record, isAccepted: true });
      return { kind: "granted", token };
    }
    this.#tables.joinQueue({ resource, session, attempt, holderId, rank, record });
    if (!isHeld(lease, this.#at)) this.#handOff(resource, { requester: session, attempt });
    const now = this.#tables.lease(resource);
    if (now?.attempt === attempt) return { kind: "granted", token: now.token };
    const heldBy = isHeld(now, this.#at) ? shownRecord(now.record).holderId : undefined;
    if (!request.queue) {
      this.#tables.leaveQueue(attempt);
      return { kind: "busy", holderId: heldBy };
    }
    if (now?.session != null)
      this.#add({ kind: "wanted", session: now.session, ref: { resource, token: now.token } });
    return { kind: "queued", holderId: heldBy };
  }

  renew(request: RenewRequest): RenewOutcome {
    const { sessionId: id } = request;
    const ttlMs = this.#tables.renewSession(id, this.#at);
    if (ttlMs === undefined) return { kind: "gone" };
    for (const attempt of request.withdrawn) this.withdraw({ ...request, ...attempt });
    for (const ref of request.acknowledged) this.#tables.acknowledge(ref, id);
    for (const ref of request.accepted ?? []) this.#tables.accept(ref, id);
    for (const resource of this.#tables.waitedFor(id)) this.#settle(resource, id);
    return {
      kind: "renewed",
      ttlMs,
      gone: this.#tables.revoked(id),
      granted: this.#tables.unaccepted(id),
      wanted: this.#tables.wanted(id),
      waiting: this.#tables.countWaiting(id),
    };
  }

  /** Whether the lease was held and is free now. */
  release(request: ReleaseRequest): boolean {
    const { resource, sessionId, preferred } = request;
    if (!this.#tables.release(request, sessionId, this.#at)) return false;
    if (this.#tables.isWanted(resource)) this.#handOff(resource, { preferred });
    return true;
  }

  withdraw({ resource, sessionId, attempt }: AttemptRequest): void {
    this.#tables.leaveQueue(attempt);
    if (this.#tables.withdraw(resource, sessionId, attempt)) this.#handOff(resource);
  }

  /** Whether the lease was held and is revoked now. */
  revoke(ref: RevokeRequest): boolean {
    const { resource, token } = ref;
    const session = this.#tables.lease(resource)?.session;
    if (session == null || !this.#tables.release(ref, session, this.#at)) return false;
    this.#tables.addRevocation(ref, session);
    this.#add({ kind: "lost", session, ref: { resource, token } });
    this.#handOff(resource);
    return true;
  }

  /** Ends the session. Its leases that have a queue are handed off; the others are free. */
  endSession(id: string): void {
    const wanted = this.#tables.wanted(id);
    this.#tables.deleteSession(id);
    for (const { resource } of wanted) this.#handOff(resource);
  }

  /** Ends every session that has expired, and adopts those of an earlier boot. */
  sweep(): void {
    this.#tables.adoptSessions(this.#at);
    for (const id of this.#tables.expiredSessions(this.#at)) this.endSession(id);
  }

  /** Hands the resource off if its holder has expired. */
  checkExpiry(resource: string): void {
    this.#settle(resource);
  }

  /** What the request has to know, after the holder's session has been ended if it expired. */
  #find(request: AttemptRequest): ReturnType<Tables["find"]> {
    const found = this.#tables.find(request, this.#at);
    if (!found.isAlive || !this.#endExpired(found.lease)) return found;
    return this.#tables.find(request, this.#at);
  }

  /**
   * Ends the session of the lease if it has expired: its next renewal must fail (S4). A session of
   * an earlier boot is adopted. True: the file has changed.
   */
  #endExpired(lease: LeaseRow | undefined): boolean {
    const { sessionEnd, session = null } = lease ?? {};
    if (session === null || sessionEnd === undefined || isHeld(lease, this.#at)) return false;
    if (sessionEnd.bootId === this.#at.bootId) this.endSession(session);
    else this.#tables.adoptSessions(this.#at);
    return true;
  }

  /** Hands the resource off if it is free, or if the session of its holder has expired. */
  #settle(resource: string, requester?: string): void {
    this.#endExpired(this.#tables.lease(resource));
    if (!isHeld(this.#tables.lease(resource), this.#at)) this.#handOff(resource, { requester });
  }

  /**
   * Grants a free resource to the next waiter. `requester`: the session that sends the request,
   * which is not quiet. `attempt`: the one whose grant the answer to the request reports.
   */
  #handOff(
    resource: string,
    by: {
      readonly requester?: string | undefined;
      readonly attempt?: string | undefined;
      readonly preferred?: string | undefined;
    } = {},
  ): void {
    const next = this.#tables.next(resource, this.#at, by);
    if (next === undefined) return;
    const { session, attempt } = next;
    this.#tables.leaveQueue(attempt);
    const isAccepted = attempt === by.attempt;
    const token = this.#write({ resource, ...next, isAccepted });
    if (isAccepted) return;
    this.#add({ kind: "granted", session, grant: { resource, token, attempt } });
  }

  #write(grant: {
    readonly resource: string;
    readonly session: string;
    readonly attempt: string;
    readonly record: string;
    readonly isAccepted: boolean;
  }): bigint {
    const clock = clockToken(this.#parts.wallNow());
    return this.#tables.grant({ ...grant, clock }, this.#at);
  }

  #add(fact: Fact): void {
    this.facts.push(fact);
  }
}
