// The trace of a run: every event in order, with its true instant. The checkers read only the trace
// and the plan. Events named `store...` are recorded by the model when the store applies a request.
// Most other events are what a program saw or did. All values of an event, in the order in which
// its properties are written, are part of the trace hash; the property names are not.

import { digest } from "./chance.ts";

/** How a grant ended at the store, unless it expired. */
export type Ending = "released" | "withdrawn" | "revoked" | "sessionEnded";

/** When a write was sent: right after its check, after the program was stopped, or by a replay. */
export type Sent = "at once" | "after a stop" | "again";

/** An event without its instant and its actor. */
export type TraceEventData =
  /** The store granted the resource. */
  | {
      readonly kind: "storeGranted";
      readonly resource: string;
      readonly token: bigint;
      readonly session: string;
      readonly attempt: string;
    }
  /** The store freed the resource before the session expired. */
  | {
      readonly kind: "storeFreed";
      readonly resource: string;
      readonly token: bigint;
      readonly how: Ending;
    }
  /** A change notification to a program's store got lost. The store polls within this time. */
  | { readonly kind: "reportLost"; readonly pollsWithinMs: number }
  /**
   * A session was opened or renewed. The store keeps it until this true instant, at the current
   * rate of its clock.
   */
  | { readonly kind: "storeKept"; readonly session: string; readonly until: number }
  /**
   * A session expired at the store at this true instant. On some stores any request extends a
   * session, so this may be later than the last `storeKept`, which reports renewals only. A holder
   * may rely on renewals only.
   */
  | { readonly kind: "storeExpired"; readonly session: string; readonly until: number }
  /**
   * The store removed a waiter from the queue: a later waiter skipped it, or a revocation mistook
   * it for the holder.
   */
  | {
      readonly kind: "storePassedOver";
      readonly resource: string;
      readonly attempt: string;
      readonly isRevocation: boolean;
    }
  /**
   * The store lost writes that it had acknowledged, or its clock was set, so its earlier answers no
   * longer hold. `keeps` lists the invariants that it guarantees even then.
   */
  | { readonly kind: "storeForgot"; readonly keeps?: readonly string[] }
  /** An ended grant is held again, because the store lost the write that ended it. */
  | { readonly kind: "storeRestored"; readonly resource: string; readonly token: bigint }
  /** A program sends a release request. */
  | { readonly kind: "gaveUp"; readonly resource: string; readonly token: bigint }
  /** A program sends a request that ends its session. */
  | { readonly kind: "endedSession"; readonly session: string }
  /**
   * The store opened a session. `sentAt` is by the program's clock; `ttlMs` is what the store
   * granted.
   */
  | {
      readonly kind: "opened";
      /** How long after the ttl the store may keep the session, as the store states it. */
      readonly expiryLagMs: number;
      readonly session: string;
      readonly sentAt: number;
      readonly sentAtTrue: number;
      readonly ttlMs: number;
    }
  /** A renewal was answered, at `now` by the program's clock. */
  | {
      readonly kind: "renewed";
      /** As in `asked`, at the time of the answer. */
      readonly wallSteppedAt?: number;
      readonly session: string;
      readonly sentAt: number;
      readonly sentAtTrue: number;
      readonly now: number;
      readonly outcome: "renewed" | "gone" | "failed";
      /** 0 if the session was not renewed. */
      readonly ttlMs: number;
    }
  /** The answer to a request other than a renewal said that the session is gone. */
  | { readonly kind: "toldGone"; readonly session: string }
  /**
   * acquire() returned a lease. `now` and `safeUntil` are by the program's clock. `withGuards`:
   * acquire() had to advance the guard of the resource first.
   */
  | {
      readonly kind: "held";
      readonly withGuards: boolean;
      readonly now: number;
      readonly resource: string;
      readonly token: bigint;
      readonly safeUntil: number;
    }
  /** check() has just passed. `now` and `safeUntil` are by the program's clock. */
  | {
      readonly kind: "acted";
      readonly resource: string;
      readonly token: bigint;
      readonly now: number;
      readonly safeUntil: number;
      /** `safeUntil` as a true instant. */
      readonly safeUntilTrue: number;
      /** The lease has `whileInDoubt: "act"`, so acts while a renewal is retried are allowed. */
      readonly actsInDoubt: boolean;
    }
  /** Work under the lease has started, inside lease.run() or as the leader. */
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
  /** release() was called. */
  | {
      readonly kind: "drained";
      readonly resource: string;
      readonly token: bigint;
      /** Undefined: as long as the work takes. */
      readonly drainMs?: number | undefined;
    }
  /** The signal of the lease was aborted, at `now` by the program's clock. */
  | {
      readonly kind: "over";
      readonly resource: string;
      readonly token: bigint;
      readonly reason: string;
      readonly now: number;
      /** The true instant since which the program and its clock have run without a stop. */
      readonly steadySince: number;
      /** The true instant at which its clock last jumped. */
      readonly jumpedAt: number;
    }
  /** release() returned. */
  | {
      readonly kind: "releasedAs";
      readonly resource: string;
      readonly token: bigint;
      readonly result: string;
    }
  /** The guard of the resource advanced to the token. */
  | { readonly kind: "advanced"; readonly resource: string; readonly token: bigint }
  /** A write reached the resource. `stale`: the resource had already seen a higher token. */
  | {
      readonly kind: "wrote";
      readonly resource: string;
      readonly token: bigint;
      readonly guarded: boolean;
      readonly sent: Sent;
      readonly outcome: "admitted" | "refused";
      readonly stale: boolean;
    }
  /**
   * A step of a scheduled job: `called` when the program calls once(), `began` when the job starts,
   * then the result: `ran`, or the reason for which it was skipped. `fire` is the scheduled time,
   * `wall` the program's wall clock.
   */
  | {
      readonly kind: "fire";
      readonly fire: number;
      readonly step: "called" | "began" | "ran" | "taken" | "running" | "late" | "closing";
      readonly wall: number;
    }
  | { readonly kind: "election"; readonly event: string; readonly detail: string }
  | { readonly kind: "failed"; readonly what: string; readonly code: string }
  /** A program sends a request to the store, at `now` by its clock. */
  | {
      readonly kind: "asked";
      readonly what: string;
      /** The true instant at which the wall clock of its machine was last set forward. */
      readonly wallSteppedAt?: number;
      readonly session: string;
      readonly now: number;
      readonly resource?: string;
      readonly attempt?: string;
    }
  /** A grant request was answered with "busy", so the attempt is in the queue now. */
  | {
      readonly kind: "queued";
      readonly resource: string;
      readonly attempt: string;
      readonly sentAtTrue: number;
    }
  /**
   * State of the connection that wakes a program's waiters, on stores that have a separate one. It
   * works from the true instant `from` on, as far as is known now: infinity while it is down, a
   * later instant while a delayed message blocks it.
   */
  | { readonly kind: "listens"; readonly from: number }
  | { readonly kind: "fault"; readonly fault: string; readonly detail: string }
  /** Start, planned end and crash of a program. */
  | { readonly kind: "started" | "closed" | "crashed" }
  /** The world enters the calm phase ("calm") or the shutdown phase ("evening"). */
  | { readonly kind: "calm" | "evening" };

export type TraceEvent = TraceEventData & { readonly at: number; readonly who: string };

export class Trace {
  readonly events: TraceEvent[] = [];
  /** How often each fault occurred, including the faults of single messages. */
  readonly faults: Map<string, number> = new Map();
  /**
   * How often a model did something that no event reports, such as electing a leader. No checker
   * reads it; sim/test/coverage.test.ts fails if a count is zero.
   */
  readonly modelEvents: Map<string, number> = new Map();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  note(who: string, data: TraceEventData): void {
    this.events.push({ at: this.#now(), who, ...data });
  }

  get faultCount(): number {
    let sum = 0;
    for (const count of this.faults.values()) sum += count;
    return sum;
  }

  /** Counts a fault and records it as an event. */
  fault(who: string, fault: string, detail: string): void {
    this.count(fault);
    this.note(who, { kind: "fault", fault, detail });
  }

  /** Counts a fault of a single message, without an event. */
  count(fault: string): void {
    addOne(this.faults, fault);
  }

  /** Counts something that a model did. Not part of the hash. */
  countModelEvent(name: string): void {
    addOne(this.modelEvents, name);
  }

  /** A hash of all events in order. Two runs of a seed must agree on it. */
  hash(): string {
    let one = 1;
    let other = 2;
    for (const event of this.events) {
      const text = joinValues(event);
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

function joinValues(event: TraceEvent): string {
  let text = "";
  for (const value of Object.values(event)) text += `${value};`;
  return text;
}
