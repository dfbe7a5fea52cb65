// The state of all grants and sessions at a point of the trace, from two views: the store's
// (grants, expiry) and the programs' (leases held, released, lost, work in flight). The checkers
// compare the two.

import type { Ending, TraceEvent } from "../world/trace.ts";

/** One grant, in both views. */
export interface Grant {
  readonly resource: string;
  readonly token: bigint;
  readonly session: string;
  readonly at: number;
  /** Store: how it ended, unless it expired. */
  freedAs: Ending | undefined;
  /**
   * The program that has the lease. Undefined until the answer arrives, and after the program was
   * killed.
   */
  holder: string | undefined;
  /** The holder sent the release request. */
  isReleaseSent: boolean;
  /** The holder called release(). */
  isDraining: boolean;
  /**
   * release() returned before the work ended. The lease is released only if the work ends in time.
   */
  isOverrun: boolean;
  /** The signal of the lease was aborted. */
  isOver: boolean;
  /** When it was aborted for another reason than a release. */
  lostAt: number | undefined;
  /** How many pieces of work are in flight under the lease. */
  work: number;
  /** When the last piece of work ended. */
  idleSince: number;
}

/** A session, in both views. */
interface SessionFacts {
  /** Store: the true instant at which it expires. */
  until: number;
  /** Store: the true instant at which it was opened or renewed. */
  keptAt: number;
  /** The holder sent the request to end it. */
  isEnded: boolean;
  /** The holder sent a renewal. */
  isRenewed: boolean;
  /** When the holder sent the newest confirmed renewal, by its own clock. */
  confirmedSentAt: number;
  inDoubt: boolean;
  isGone: boolean;
  /**
   * The true instant at which the holder sent its newest renewal: it had not left the session by
   * then.
   */
  aliveAt: number;
}

export class Facts {
  readonly #grants = new Map<string, Map<bigint, Grant>>();
  readonly #newest = new Map<string, Grant>();
  readonly #sessions = new Map<string, SessionFacts>();

  /** The newest grant of a resource. */
  newest(resource: string): Grant | undefined {
    return this.#newest.get(resource);
  }

  grant(resource: string, token: bigint): Grant | undefined {
    return this.#grants.get(resource)?.get(token);
  }

  session(name: string): SessionFacts {
    let session = this.#sessions.get(name);
    if (session === undefined) {
      session = {
        until: Number.NEGATIVE_INFINITY,
        keptAt: Number.NEGATIVE_INFINITY,
        confirmedSentAt: Number.NEGATIVE_INFINITY,
        isEnded: false,
        isRenewed: false,
        inDoubt: false,
        isGone: false,
        aliveAt: Number.NEGATIVE_INFINITY,
      };
      this.#sessions.set(name, session);
    }
    return session;
  }

  *all(): Generator<Grant> {
    for (const grants of this.#grants.values()) yield* grants.values();
  }

  /** Whether the store still considers the resource held by this grant. */
  isHeldAtStore(grant: Grant, at: number): boolean {
    return grant.freedAs === undefined && this.session(grant.session).until > at;
  }

  /** Applies an event, after the checkers have compared it with the previous state. */
  apply(event: TraceEvent): void {
    switch (event.kind) {
      case "storeGranted":
        this.#granted(event);
        return;
      case "storeKept":
        Object.assign(this.session(event.session), { until: event.until, keptAt: event.at });
        return;
      case "endedSession":
        this.session(event.session).isEnded = true;
        return;
      case "asked":
        if (event.what === "renew") this.session(event.session).isRenewed = true;
        return;
      case "renewed":
        this.#renewed(event);
        return;
      case "crashed":
        this.#crashed(event.who);
        return;
      default:
        if ("token" in event) this.#applyToGrant(event);
    }
  }

  /** A crash ends the work of a program. After a restart it does not know its old leases. */
  #crashed(who: string): void {
    for (const grant of this.all()) {
      if (grant.holder !== who) continue;
      grant.work = 0;
      grant.holder = undefined;
    }
  }

  #applyToGrant(event: TraceEvent & { readonly resource: string; readonly token: bigint }): void {
    const grant = this.grant(event.resource, event.token);
    if (grant === undefined) return;
    if (event.kind === "storeFreed") grant.freedAs ??= event.how;
    if (event.kind === "held") grant.holder = event.who;
    if (event.kind === "gaveUp") grant.isReleaseSent = true;
    if (event.kind === "drained") grant.isDraining = true;
    // The drain limit and the loss of the session are due at the same instant; either may be
    // reported.
    if (event.kind === "releasedAs" && (event.result === "overrun" || isLostAtWork(event, grant)))
      grant.isOverrun = true;
    if (event.kind === "over") {
      grant.isOver = true;
      if (event.reason !== "released") grant.lostAt ??= event.at;
    }
    if (event.kind === "workBegan") grant.work += 1;
    if (event.kind === "workEnded") {
      grant.work -= 1;
      grant.idleSince = event.at;
    }
  }

  #granted(event: Extract<TraceEvent, { kind: "storeGranted" }>): void {
    const { resource, token, session, at } = event;
    let grants = this.#grants.get(resource);
    if (grants === undefined) {
      grants = new Map();
      this.#grants.set(resource, grants);
    }
    // A repeated request got the same answer.
    if (grants.has(token)) return;
    const grant: Grant = {
      resource,
      token,
      session,
      at,
      freedAs: undefined,
      holder: undefined,
      work: 0,
      idleSince: at,
      isReleaseSent: false,
      isDraining: false,
      isOverrun: false,
      isOver: false,
      lostAt: undefined,
    };
    grants.set(token, grant);
    this.#newest.set(resource, grant);
  }

  /** Computes doubt independently of the holder, from the answers to its renewals. */
  #renewed(event: Extract<TraceEvent, { kind: "renewed" }>): void {
    const session = this.session(event.session);
    session.aliveAt = Math.max(session.aliveAt, event.sentAtTrue);
    if (event.outcome === "gone") session.isGone = true;
    if (event.outcome === "failed" && event.sentAt >= session.confirmedSentAt)
      session.inDoubt = true;
    if (event.outcome === "renewed" && event.sentAt > session.confirmedSentAt) {
      session.confirmedSentAt = event.sentAt;
      session.inDoubt = false;
    }
  }
}

function isLostAtWork({ result }: { readonly result: string }, { work }: Grant): boolean {
  return result === "lost" && work > 0;
}
