// The store contract: what Tenure asks of a backend. Read this first when you write a store; `memory.ts` is the same
// contract as a program, and `testing/` checks a store against it.
//
// Three rules run through all of it.
// - Foreseen answers are values (`granted`, `busy`, `renewed`, `gone`, ...). Anything else is a StoreUnavailableError
//   that says whether the request may have been applied. A timeout is "unknown", never "no".
// - Every change is conditional: a renewal on the session, a release on session and token, a revocation on the token.
//   A late or repeated request of an older term changes nothing (S5).
// - A store answers with durations, never with times: no clock of the store ever meets a clock of the holder.

import type { Clock, HostClock, Random } from "../async/clock.ts";

/**
 * Where a store keeps a queue: the first in it gets this long to take a free resource. Then anyone may, so that one
 * stuck waiter cannot hold up the rest for a whole ttl.
 */
export const HEAD_START_MS = 250;

/** A renewal acknowledges at most this many revocations, so that its size is bounded. etcd takes 128 operations at once. */
export const ACKNOWLEDGED_MAX = 100;

/** What a store may use of the outside world. The simulator hands in its own. */
export interface StoreParts {
  readonly clock: Clock;
  readonly hostClock: HostClock;
  readonly random: Random;
  /** Reports a risk that no request would reveal. connect() passes process.emitWarning. */
  warn(message: string): void;
}

/** What `connect()` takes in place of a URL: a store that is still to be opened. */
export type OpenStore = (parts: StoreParts) => Promise<Store>;

export interface Store {
  readonly guarantees: Guarantees;

  /** Makes the session known to the backend. Answers with the ttl that it really granted. */
  openSession(request: OpenSessionRequest): Promise<{ readonly ttlMs: number }>;
  /** One atomic conditional write, one round trip (S1, S4). The same attempt asked again gets the same answer. */
  grant(request: GrantRequest): Promise<GrantOutcome>;
  /** One request, however many leases the session has. Tells which of them are gone. */
  renew(request: RenewRequest): Promise<RenewOutcome>;
  release(request: ReleaseRequest): Promise<ReleaseOutcome>;
  /** Gives back whatever an attempt got, or its place in the queue, when its answer is unknown or no longer wanted. */
  withdraw(request: AttemptRequest): Promise<void>;
  /** Forgets the session: its leases are free, its waiters gone. Unknown sessions are no error. */
  endSession(request: SessionRequest): Promise<void>;
  /**
   * Resolves when asking for a grant again is worthwhile: the resource is free and it is this attempt's turn. May
   * resolve for nothing, must not miss. Rejects only with the signal's reason.
   */
  untilFree(request: AttemptRequest & { readonly signal: AbortSignal }): Promise<void>;

  read(request: ReadRequest): Promise<ReadAnswer>;
  /** One page of the held leases, ordered by resource. */
  list(request: ListRequest): Promise<ListPage>;
  /** First what is held now, then every change, by push where the backend can. Ends when the signal aborts. */
  watch(request: WatchRequest): AsyncIterable<LeaseView>;
  /** Ends a lease that somebody else holds, if it still has this token. */
  revoke(request: RevokeRequest): Promise<RevokeOutcome>;

  /** Frees what this process uses. Leases and sessions stay as they are. */
  close(): Promise<void>;
}

/** What a user and the conformance suite may rely on. */
export interface Guarantees {
  readonly store: string;
  /** Where tokens come from, and the only events after which one could fall. */
  readonly tokenSource: string;
  readonly tokenFalls: string;
  /** Whose clock decides expiry. */
  readonly expiryClock: string;
  /** The granularity of a granted ttl. */
  readonly ttlStepMs: number;
  /** The store may let go up to this much later than the ttl; never earlier. */
  readonly expiryLagMs: number;
  /** How a waiter learns that a resource is free. */
  readonly wakeUp: "push" | "poll";
  /** Waiters are served in the order in which they came. */
  readonly fifo: boolean;
  /** Grants survive a restart of the store, also a crash. */
  readonly durable: boolean;
}

export interface SessionRequest {
  readonly sessionId: string;
  /** The store must have answered or thrown by then. */
  readonly limitMs: number;
}

export interface OpenSessionRequest extends SessionRequest {
  readonly holderId: string;
  readonly ttlMs: number;
}

export interface AttemptRequest extends SessionRequest {
  readonly resource: string;
  /** One acquisition. Never used for a second one, also not on another resource. */
  readonly attempt: string;
}

export interface GrantRequest extends AttemptRequest {
  readonly holderId: string;
  /** What followers may read about the holder: any JSON value. */
  readonly value?: unknown;
  /** When busy, keep a place in the queue until the grant, `withdraw` or the end of the session. */
  readonly queue: boolean;
}

export type GrantOutcome =
  /** Held from now on, for as long as the session lives. */
  | { readonly kind: "granted"; readonly token: bigint }
  | { readonly kind: "busy"; readonly holderId?: string | undefined }
  /** This attempt was granted before and has ended since: a repeated request came late. */
  | { readonly kind: "ended" }
  /** The session is unknown or expired. */
  | { readonly kind: "gone" };

export interface LeaseRef {
  readonly resource: string;
  readonly token: bigint;
}

export interface RenewRequest extends SessionRequest {
  /** Attempts whose fate is unknown: give back what they got, now and at every renewal that names them. */
  readonly withdrawn: readonly { readonly resource: string; readonly attempt: string }[];
  /**
   * Revocations that earlier answers reported in `gone` and that the holder has processed, at most ACKNOWLEDGED_MAX. The
   * store deletes them, conditional on session, resource and token. Unknown ones are ignored, so a renewal whose answer
   * got lost can repeat them.
   */
  readonly acknowledged: readonly LeaseRef[];
}

export type RenewOutcome =
  /**
   * The session lives for `ttlMs` from when the store handled this. `gone`: its leases that were revoked. Each is reported
   * at every renewal until one acknowledges it, because the store cannot know whether an answer arrived.
   */
  | { readonly kind: "renewed"; readonly ttlMs: number; readonly gone: readonly LeaseRef[] }
  | { readonly kind: "gone" };

export interface ReleaseRequest extends SessionRequest, LeaseRef {}

export type ReleaseOutcome = { readonly kind: "released" } | { readonly kind: "notHeld" };

export type Consistency = "linearizable" | "stale";

export interface ReadRequest {
  readonly resource: string;
  readonly consistency: Consistency;
  readonly limitMs: number;
}

/** What a reader sees of a resource. */
export interface LeaseView {
  readonly resource: string;
  /** Absent when nobody holds it. */
  readonly holder?: HolderView | undefined;
}

export interface HolderView {
  readonly holderId: string;
  readonly sessionId: string;
  readonly token: bigint;
  readonly value?: unknown;
  /** By the store's clock, when this was read. */
  readonly expiresInMs: number;
  /**
   * How long ago the lease was granted, in milliseconds, measured when this was read. Renewals do not change it. For people to
   * read: decide nothing by it. Never below 0. On etcd it compares the wall clocks of holder and reader, on ZooKeeper those
   * of server and reader, and is off by the difference between the two. Absent if the record does not say it, for
   * example because an older version of Tenure wrote it.
   */
  readonly heldForMs?: number | undefined;
}

export interface ReadAnswer extends LeaseView {
  /** What the answer rests on, so that nobody takes a stale read for proof. */
  readonly evidence: {
    readonly consistency: Consistency;
    /** The backend's own version of what was read, where it has one. */
    readonly revision?: string | undefined;
    /** The answer may be older than this by no more than the round trip; unknown for stale reads of a replica. */
    readonly ageMs?: number | undefined;
  };
}

export interface ListRequest {
  readonly prefix: string;
  /** Start behind this resource. */
  readonly after?: string | undefined;
  readonly limit: number;
  readonly limitMs: number;
}

export interface ListPage {
  readonly leases: readonly LeaseView[];
  /** Pass as `after` for the next page; absent at the end. */
  readonly next?: string | undefined;
}

export interface WatchRequest {
  readonly prefix: string;
  readonly signal: AbortSignal;
  /** Called whenever all that is held has been told; from the first time on silence means that nothing changed. */
  readonly onCaughtUp?: (() => void) | undefined;
}

export interface RevokeRequest extends LeaseRef {
  readonly limitMs: number;
}

export type RevokeOutcome = { readonly kind: "revoked" } | { readonly kind: "notHeld" };
