// The store contract: what Tenure requires of a backend, published as `tenure/store`. Read this
// file first when you write a store. `memory/` implements the same contract in one process, and
// `tenure/testing` checks a store against it.
//
// Three rules apply throughout.
// - Expected outcomes are values (`granted`, `busy`, `renewed`, `gone`, ...). Anything else is a
//   StoreUnavailableError that states whether the request may have been applied. A timeout means
//   "unknown", never "no".
// - Every change is conditional: a renewal on the session, a release on session and token, a
//   revocation on the token. A late or repeated request of an older term changes nothing (S5).
// - A store answers with durations, never with times, so the store's clock is never compared with
//   the holder's clock.

import type { Clock, HostClock, Random, Timer, TimerOptions } from "../async/clock.ts";

export { clockToken, nextToken, startOfEra, type TokenState } from "../core/era.ts";
export type { Clock, HostClock, Random, Timer, TimerOptions };

/**
 * For stores that keep a queue: how long only the first waiter may take a resource that became
 * free. After that any process may take it, so that one stuck waiter cannot block the others for a
 * ttl.
 */
export const HEAD_START_MS = 250;

/**
 * The most revocations that one renewal acknowledges. It bounds the size of a renewal: etcd accepts
 * 128 operations in a transaction.
 */
export const ACKNOWLEDGED_MAX = 100;

/** The parts of the outside world that a store may use. Tests and the simulator pass their own. */
export interface StoreParts {
  readonly clock: Clock;
  readonly hostClock: HostClock;
  readonly random: Random;
  /** Reports a risk that no request would reveal. connect() passes process.emitWarning. */
  warn(message: string): void;
}

/** A store that is not open yet. `connect()` accepts it in place of a URL. */
export type OpenStore = (parts: StoreParts) => Promise<Store>;

export interface Store {
  readonly guarantees: Guarantees;

  /** Registers the session with the backend. Answers with the ttl that the backend granted. */
  openSession(request: OpenSessionRequest): Promise<{ readonly ttlMs: number }>;
  /**
   * Grants a resource: one atomic conditional write, one round trip (S1, S4). A repeated request
   * for the same attempt gets the same answer while the grant is held, and `ended` afterwards.
   *
   * A store must recognise the newest attempt that was granted on each resource. It need not
   * recognise an older one: if a copy of an old request arrives after the attempt was released and
   * another attempt was granted and released, the store may grant it again. Holders therefore name
   * every attempt whose answer was lost in `renew`, also after its release, and the renewal frees
   * such a grant. See ADR 003.
   */
  grant(request: GrantRequest): Promise<GrantOutcome>;
  /**
   * Extends the session with one request, however many leases it has. Reports which of them were
   * revoked.
   */
  renew(request: RenewRequest): Promise<RenewOutcome>;
  /** Frees the resource if the session still holds it with this token. */
  release(request: ReleaseRequest): Promise<ReleaseOutcome>;
  /**
   * Undoes an attempt whose answer is unknown or no longer wanted: frees the resource if the
   * attempt was granted, and removes the attempt from the queue.
   */
  withdraw(request: AttemptRequest): Promise<void>;
  /**
   * Frees all leases of the session and removes its waiters. An unknown session is not an error.
   */
  endSession(request: SessionRequest): Promise<void>;
  /**
   * Resolves when another grant request is likely to succeed: the resource is free and it is this
   * attempt's turn. It may resolve too early, but it must not miss the moment. Rejects only with
   * the signal's reason, or when the store is closed.
   */
  untilFree(request: AttemptRequest & { readonly signal: AbortSignal }): Promise<void>;

  read(request: ReadRequest): Promise<ReadAnswer>;
  /** One page of the held leases, ordered by resource. */
  list(request: ListRequest): Promise<ListPage>;
  /**
   * Yields the leases that are held now, then every change, pushed by the backend if it can. Ends
   * when the signal aborts.
   */
  watch(request: WatchRequest): AsyncIterable<LeaseView>;
  /** Ends a lease of another holder if it still has this token. */
  revoke(request: RevokeRequest): Promise<RevokeOutcome>;

  /** Frees the connections and timers of this process. Leases and sessions stay as they are. */
  close(): Promise<void>;
}

/** What users and the conformance suite may rely on. */
export interface Guarantees {
  readonly store: string;
  /** Where tokens come from. */
  readonly tokenSource: string;
  /** The only events after which a token could be lower than, or equal to, an earlier one. */
  readonly tokenFalls: string;
  /** The clock that decides expiry. */
  readonly expiryClock: string;
  /** The granularity of a granted ttl. */
  readonly ttlStepMs: number;
  /** The store may free a lease this much later than its ttl, and never earlier. */
  readonly expiryLagMs: number;
  /** How a waiter learns that a resource is free. */
  readonly wakeUp: "push" | "poll";
  /** Whether waiters are served in the order of their requests. */
  readonly fifo: boolean;
  /** Whether grants survive a restart of the backend, including a crash. */
  readonly durable: boolean;
}

export interface SessionRequest {
  readonly sessionId: string;
  /** The store must have answered or thrown after this many milliseconds. */
  readonly limitMs: number;
}

export interface OpenSessionRequest extends SessionRequest {
  readonly holderId: string;
  readonly ttlMs: number;
}

export interface AttemptRequest extends SessionRequest {
  readonly resource: string;
  /** Identifies one acquisition. Never used for a second one, not even on another resource. */
  readonly attempt: string;
}

export interface GrantRequest extends AttemptRequest {
  readonly holderId: string;
  /** Information about the holder that readers get: any JSON value. */
  readonly value?: unknown;
  /** If busy, queue the attempt until it is granted or withdrawn, or the session ends. */
  readonly queue: boolean;
}

export type GrantOutcome =
  /** Held from now on, until the session expires, unless it is released or revoked. */
  | { readonly kind: "granted"; readonly token: bigint }
  | { readonly kind: "busy"; readonly holderId?: string | undefined }
  /** This attempt was granted earlier and its lease has ended: the request is a late copy. */
  | { readonly kind: "ended" }
  /** The session is unknown or expired. */
  | { readonly kind: "gone" };

export interface LeaseRef {
  readonly resource: string;
  readonly token: bigint;
}

export interface RenewRequest extends SessionRequest {
  /** Attempts whose outcome is unknown. The store undoes each of them, as `withdraw` does. */
  readonly withdrawn: readonly { readonly resource: string; readonly attempt: string }[];
  /**
   * Revocations that earlier answers reported in `gone` and that the holder has processed, at most
   * ACKNOWLEDGED_MAX. The store deletes them, conditional on session, resource and token. It
   * ignores unknown ones, so a renewal whose answer was lost can repeat them.
   */
  readonly acknowledged: readonly LeaseRef[];
}

export type RenewOutcome =
  /**
   * The session lives for `ttlMs` from the moment the store handled the request. `gone` lists the
   * leases of the session that were revoked. A revocation is reported by every renewal until one
   * acknowledges it, because the store cannot know whether an answer arrived.
   */
  | { readonly kind: "renewed"; readonly ttlMs: number; readonly gone: readonly LeaseRef[] }
  /** The session is unknown or expired, and all its leases with it. */
  | { readonly kind: "gone" };

export interface ReleaseRequest extends SessionRequest, LeaseRef {}

export type ReleaseOutcome = { readonly kind: "released" } | { readonly kind: "notHeld" };

/** A linearizable read reflects all changes that completed before it began; a stale one may not. */
export type Consistency = "linearizable" | "stale";

export interface ReadRequest {
  readonly resource: string;
  readonly consistency: Consistency;
  readonly limitMs: number;
}

/** What a reader sees of a resource. */
export interface LeaseView {
  readonly resource: string;
  /** Absent if the resource is free. */
  readonly holder?: HolderView | undefined;
}

export interface HolderView {
  /** "(unreadable record)" in lists and watches if another program has overwritten the record. */
  readonly holderId: string;
  readonly sessionId: string;
  readonly token: bigint;
  readonly value?: unknown;
  /** Time until the lease expires unless it is renewed, by the store's clock when it was read. */
  readonly expiresInMs: number;
  /**
   * How long ago the lease was granted, in milliseconds, when it was read; never below 0. Renewals
   * do not change it. It is meant for display: make no decision by it. On etcd it compares the wall
   * clocks of holder and reader, on ZooKeeper those of server and reader, and is wrong by the
   * difference between the two. Stores report it for every lease that they grant; it is absent from
   * records of an older version of Tenure.
   */
  readonly heldForMs?: number | undefined;
}

export interface ReadAnswer extends LeaseView {
  /** What the answer is based on, so that a stale read is not mistaken for proof. */
  readonly evidence: {
    readonly consistency: Consistency;
    /** The backend's own version of what was read, if it has one. */
    readonly revision?: string | undefined;
    /**
     * The age of the answer, apart from the round trip. Absent if it is unknown, as for stale reads
     * from a replica.
     */
    readonly ageMs?: number | undefined;
  };
}

export interface ListRequest {
  readonly prefix: string;
  /** Start after this resource. */
  readonly after?: string | undefined;
  /** The most leases in the page. */
  readonly limit: number;
  readonly limitMs: number;
}

export interface ListPage {
  readonly leases: readonly LeaseView[];
  /** Pass as `after` for the next page. Absent on the last page. */
  readonly next?: string | undefined;
}

export interface WatchRequest {
  readonly prefix: string;
  readonly signal: AbortSignal;
  /**
   * Called each time all leases that are held have been yielded. After the first call, the absence
   * of a view means that nothing changed.
   */
  readonly onCaughtUp?: (() => void) | undefined;
}

export interface RevokeRequest extends LeaseRef {
  readonly limitMs: number;
}

export type RevokeOutcome = { readonly kind: "revoked" } | { readonly kind: "notHeld" };
