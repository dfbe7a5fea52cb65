// What happened in a world, in the order in which it happened, with true instants. The checkers read nothing else. Events
// named `store...` are the store's own truth, noted where it applied a request; the others are what a program saw or did.

import { digest } from "./chance.ts";

/** How a grant ended at the store, where it did not simply expire. */
export type Ending = "released" | "withdrawn" | "revoked" | "sessionEnded";

/** How a write came to be sent. */
export type Sent = "at once" | "after a stop" | "again";

export type Happening =
  /** The store said yes. */
  | {
      readonly kind: "storeGranted";
      readonly resource: string;
      readonly token: bigint;
      readonly session: string;
      readonly attempt: string;
    }
  | {
      readonly kind: "storeFreed";
      readonly resource: string;
      readonly token: bigint;
      readonly how: Ending;
      /** When the store read its clock for it, where others could see it later only: a head start counts from that reading. */
      readonly readAt?: number;
    }
  /** A program's store was not told of a change that happened now; by its own word it looks by itself after so long at most. */
  | { readonly kind: "reportLost"; readonly looksWithinMs: number }
  /** Opened or renewed: the session lives until this true instant, by the store's clock as it runs now. */
  | { readonly kind: "storeKept"; readonly session: string; readonly until: number }
  /**
   * A session has run out at the store. It lived until this true instant, by the last request of any kind that the store heard of
   * it: a holder may count on its renewals only, and that is what `storeKept` tells.
   */
  | { readonly kind: "storeExpired"; readonly session: string; readonly until: number }
  /** On a store with places in a queue: one was taken away by whoever stands behind it, or a third party took it for the holder. */
  | {
      readonly kind: "storePassedOver";
      readonly resource: string;
      readonly attempt: string;
      readonly isRevocation: boolean;
    }
  /**
   * The store lost writes that it had answered, or its clock was set: what it said before does not hold any more. `keeps`: the
   * invariants that it promises even so.
   */
  | { readonly kind: "storeForgot"; readonly keeps?: readonly string[] }
  /** A grant that had been ended is there again, because the store forgot how it ended. */
  | { readonly kind: "storeRestored"; readonly resource: string; readonly token: bigint }
  /** A program sends a request that gives something up. */
  | { readonly kind: "gaveUp"; readonly resource: string; readonly token: bigint }
  | { readonly kind: "endedSession"; readonly session: string }
  /** `sentAt` by the program's own clock, and as a true instant; `ttlMs` is what the store granted. */
  | {
      readonly kind: "opened";
      /** By the store's own word: so much later than the ttl it may let go. */
      readonly expiryLagMs: number;
      readonly session: string;
      readonly sentAt: number;
      readonly sentAtTrue: number;
      readonly ttlMs: number;
    }
  /** The same, and when the answer came by the program's own clock. */
  | {
      readonly kind: "renewed";
      /** As of `asked`, when the answer came. */
      readonly wallSteppedAt?: number;
      readonly session: string;
      readonly sentAt: number;
      readonly sentAtTrue: number;
      readonly now: number;
      readonly outcome: "renewed" | "gone" | "failed";
      /** 0 where it was not renewed. */
      readonly ttlMs: number;
    }
  /** The answer to another request said that the store does not know the session. */
  | { readonly kind: "toldGone"; readonly session: string }
  /**
   * acquire() answered with a lease; `now` and `safeUntil` by the program's own clock. `withGuards`: it was to advance the
   * resource's guard first.
   */
  | {
      readonly kind: "held";
      readonly withGuards: boolean;
      readonly now: number;
      readonly resource: string;
      readonly token: bigint;
      readonly safeUntil: number;
    }
  /** check() has just passed, by the program's own clock at `now`; `safeUntil` by the same, and as a true instant. */
  | {
      readonly kind: "acted";
      readonly resource: string;
      readonly token: bigint;
      readonly now: number;
      readonly safeUntil: number;
      readonly safeUntilTrue: number;
      readonly actsInDoubt: boolean;
    }
  | {
      readonly kind: "workBegan";
      readonly resource: string;
      readonly token: bigint;
      readonly actsInDoubt: boolean;
    }
  | {
      readonly kind: "workEnded";
      readonly resource: string;
      readonly token: bigint;
    }
  /** release() was called; undefined: it may take as long as the work does. */
  | {
      readonly kind: "drained";
      readonly resource: string;
      readonly token: bigint;
      readonly drainMs?: number | undefined;
    }
  /** The lease told of its end, by the program's own clock at `now`. */
  | {
      readonly kind: "over";
      readonly resource: string;
      readonly token: bigint;
      readonly reason: string;
      readonly now: number;
      /** Since this true instant the program and its clock ran without a stop. */
      readonly steadySince: number;
      /** When its clock last jumped, as a true instant. */
      readonly jumpedAt: number;
    }
  | {
      readonly kind: "releasedAs";
      readonly resource: string;
      readonly token: bigint;
      readonly result: string;
    }
  /** The guard of the resource was advanced to the token. */
  | { readonly kind: "advanced"; readonly resource: string; readonly token: bigint }
  /**
   * A write reached the resource. `stale`: a higher token had been there before. `sent`: as soon as it was checked, when a stop
   * between the two was over, or once more by the world.
   */
  | {
      readonly kind: "wrote";
      readonly resource: string;
      readonly token: bigint;
      readonly guarded: boolean;
      readonly sent: Sent;
      readonly outcome: "admitted" | "refused";
      readonly stale: boolean;
    }
  /** Of a schedule, by its instant; `wall` is what the program's clock on the wall shows. */
  | {
      readonly kind: "fire";
      readonly fire: number;
      readonly step: "called" | "began" | "ran" | "taken" | "running" | "late" | "closing";
      readonly wall: number;
    }
  | { readonly kind: "election"; readonly event: string; readonly detail: string }
  | { readonly kind: "failed"; readonly what: string; readonly code: string }
  /** A request to the store leaves; `now` by the program's own clock. */
  | {
      readonly kind: "asked";
      readonly what: string;
      /** When the wall clock of its machine was last set forward, as a true instant, if ever. */
      readonly wallSteppedAt?: number;
      readonly session: string;
      readonly now: number;
      readonly resource?: string;
      readonly attempt?: string;
    }
  /** The answer to a request for a grant that waits: busy, so that it has its place in the queue by now. */
  | {
      readonly kind: "queued";
      readonly resource: string;
      readonly attempt: string;
      readonly sentAtTrue: number;
    }
  /**
   * Of stores whose waiters are woken over a connection of its own: from this true instant on that of the program is in order, as
   * far as is known now. Never, while it is not there; later, where something on it is late that all behind it waits for.
   */
  | { readonly kind: "listens"; readonly from: number }
  | { readonly kind: "fault"; readonly fault: string; readonly detail: string }
  | { readonly kind: "started" | "closed" | "crashed" | "calm" | "evening" };

export type Traced = Happening & { readonly at: number; readonly who: string };

export class Trace {
  readonly events: Traced[] = [];
  /** How often each fault was done, the small ones of the network included. */
  readonly faults: Map<string, number> = new Map();
  /** How often something came about in a model that no event tells of. Nobody judges by it; a count of zero is a model that idles. */
  readonly sights: Map<string, number> = new Map();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  note(who: string, happening: Happening): void {
    this.events.push({ at: this.#now(), who, ...happening });
  }

  get faultCount(): number {
    let sum = 0;
    for (const count of this.faults.values()) sum += count;
    return sum;
  }

  /** A fault worth a line of its own. */
  fault(who: string, fault: string, detail: string): void {
    this.count(fault);
    this.note(who, { kind: "fault", fault, detail });
  }

  /** A fault that hits one message: counted, not told. */
  count(fault: string): void {
    addOne(this.faults, fault);
  }

  /** No fault, and not part of the hash. */
  saw(sight: string): void {
    addOne(this.sights, sight);
  }

  /** The same for the same events in the same order, and for nothing else. */
  hash(): string {
    let one = 1;
    let other = 2;
    for (const event of this.events) {
      const text = textOf(event);
      one = digest(text, one);
      other = digest(text, other);
    }
    const hex = (part: number): string => (part >>> 0).toString(16).padStart(8, "0");
    return hex(one) + hex(other);
  }
}

function addOne(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function textOf(event: Traced): string {
  let text = "";
  for (const value of Object.values(event)) text += `${value};`;
  return text;
}
