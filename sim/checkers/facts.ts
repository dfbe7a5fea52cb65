// What is known at each point of the trace, told twice: by the store (who was granted what, until when) and by the programs
// (what they hold, gave up, lost, are at work on). The checkers compare the two. Every event is looked at once.

import type { Ending, Traced } from "../world/trace.ts";

/** One grant, from both sides. */
export interface Grant {
  readonly resource: string;
  readonly token: bigint;
  readonly session: string;
  readonly at: number;
  /** At the store: how it ended, where it did not simply expire. */
  freedAs: Ending | undefined;
  /** Whose lease it is; undefined while the answer is under way, or lost, and when the holder was killed. */
  holder: string | undefined;
  /** The holder asked to give it back. */
  isGivenUp: boolean;
  /** release() was called. */
  isDraining: boolean;
  /** release() answered before the work had ended: it goes on, and only where it ends in time is the lease given back. */
  isOverrun: boolean;
  /** The holder knows that it is over. */
  isOver: boolean;
  /** When it learned so, where it was not by its own will. */
  lostAt: number | undefined;
  /** Pieces of work in flight under it. */
  work: number;
  /** When the last of them ended. */
  idleSince: number;
}

/** A session, from both sides. */
interface SessionFacts {
  /** By the store: it lives until this true instant. */
  until: number;
  /** The holder asked to end it. */
  isEnded: boolean;
  /** By the holder: a renewal of it was sent. */
  isRenewed: boolean;
  /** By the holder: the newest confirmed renewal was sent then, by its own clock. */
  confirmedSentAt: number;
  inDoubt: boolean;
  isGone: boolean;
  /** By the holder: its newest renewal was sent then, a true instant. It lived on the holder's side. */
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
        ...{ until: Number.NEGATIVE_INFINITY, confirmedSentAt: Number.NEGATIVE_INFINITY },
        ...{ isEnded: false, isRenewed: false, inDoubt: false, isGone: false },
        aliveAt: Number.NEGATIVE_INFINITY,
      };
      this.#sessions.set(name, session);
    }
    return session;
  }

  *all(): Generator<Grant> {
    for (const grants of this.#grants.values()) yield* grants.values();
  }

  /** Whether the store would still refuse everybody else. */
  isHeldAtStore(grant: Grant, at: number): boolean {
    return grant.freedAs === undefined && this.session(grant.session).until > at;
  }

  /** Takes an event in, after the checkers have compared it with what was known before. */
  learn(event: Traced): void {
    switch (event.kind) {
      case "storeGranted":
        this.#granted(event);
        return;
      case "storeKept":
        this.session(event.session).until = event.until;
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
        this.#died(event.who);
        return;
      default:
        if ("token" in event) this.#learnOfGrant(event);
    }
  }

  /** Its work is over with it, and its leases are nobody's: whoever starts there again knows nothing of them. */
  #died(who: string): void {
    for (const grant of this.all()) {
      if (grant.holder !== who) continue;
      grant.work = 0;
      grant.holder = undefined;
    }
  }

  #learnOfGrant(event: Traced & { readonly resource: string; readonly token: bigint }): void {
    const grant = this.grant(event.resource, event.token);
    if (grant === undefined) return;
    if (event.kind === "storeFreed") grant.freedAs ??= event.how;
    if (event.kind === "held") grant.holder = event.who;
    if (event.kind === "gaveUp") grant.isGivenUp = true;
    if (event.kind === "drained") grant.isDraining = true;
    // Both are due at the same instant, the end of what was certain: it was overrun, or its session was lost.
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

  #granted(event: Extract<Traced, { kind: "storeGranted" }>): void {
    const { resource, token, session, at } = event;
    let grants = this.#grants.get(resource);
    if (grants === undefined) {
      grants = new Map();
      this.#grants.set(resource, grants);
    }
    // The same answer to a repeated request.
    if (grants.has(token)) return;
    const grant: Grant = {
      ...{ resource, token, session, at, freedAs: undefined, holder: undefined, work: 0 },
      idleSince: at,
      ...{
        isGivenUp: false,
        isDraining: false,
        isOverrun: false,
        isOver: false,
        lostAt: undefined,
      },
    };
    grants.set(token, grant);
    this.#newest.set(resource, grant);
  }

  /** The rule of doubt once more, from what the holder's store told it. */
  #renewed(event: Extract<Traced, { kind: "renewed" }>): void {
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
