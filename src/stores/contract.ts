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

import type { Clock, ClockJump, HostClock, Random, Timer, TimerOptions } from "../async/clock.ts";

export { clockToken, nextToken, startOfEra, type TokenState } from "../core/era.ts";
export type { Clock, ClockJump, HostClock, Random, Timer, TimerOptions };

/**
 * The most revocations, and the most grants, that one renewal acknowledges. It bounds the size of a
 * renewal: etcd accepts 128 operations in a transaction.
 */
export const ACKNOWLEDGED_MAX = 100;

/** The parts of the outside world that a store may use. Tests and the simulator pass their own. */
export interface StoreParts {
  /** The clock of this process, for time limits and timers. */
  readonly clock: Clock;
  /** The clock that all processes of this host share, for embedded stores. */
  readonly hostClock: HostClock;
  /** The source of ids and jitter. */
  readonly random: Random;
  /** Reports a risk that no request would reveal. connect() passes process.emitWarning. */
  warn(message: string): void;
  /**
   * Calls back when the process exits, for a store that can still write something synchronously.
   * Returns the function that removes the callback. Absent where no process can exit.
   */
  onExit?(callback: () => void): () => void;
}

/** A store that is not open yet. `connect()` accepts it in place of a URL. */
export type OpenStore = (parts: StoreParts) => Promise<Store>;

/**
 * An open connection to a backend. Every Tenure uses one store; Tenure calls these methods itself.
 */
export interface Store {
  /** What this store promises. Constant while the store is open. */
  readonly guarantees: Guarantees;

  /** Registers the session with the backend. Answers with the ttl that the backend granted. */
  openSession(request: OpenSessionRequest): Promise<{ readonly ttlMs: number }>;
  /**
   * Grants a resource, or queues the attempt: one atomic conditional write, one round trip (S1,
   * S4). A repeated request for the same attempt gets the same answer while the grant is held, and
   * `ended` afterwards. queue-policy.ts states who is granted a resource that is wanted by several.
   *
   * A store must recognise the newest attempt that was granted on each resource. It need not
   * recognise an older one: if a copy of an old request arrives after the attempt was released and
   * another attempt was granted and released, the store may grant it again. Holders therefore name
   * every attempt whose answer was lost in `renew`, also after its release, and the renewal frees
   * such a grant. See ADR 003.
   */
  grant(request: GrantRequest): Promise<GrantOutcome>;
  /**
   * Extends the session with one request, however many leases it has. Reports everything that
   * `SessionEvents` may have failed to deliver. If a resource that the session waits for is free,
   * the store grants it to the next waiter now.
   */
  renew(request: RenewRequest): Promise<RenewOutcome>;
  /**
   * Frees the resource if the session still holds it with this token, and hands it off to the next
   * waiter in the same atomic step.
   */
  release(request: ReleaseRequest): Promise<ReleaseOutcome>;
  /**
   * Undoes an attempt whose answer is unknown or no longer wanted: removes it from the queue and,
   * if it was granted, frees the resource as `release` does.
   */
  withdraw(request: AttemptRequest): Promise<void>;
  /**
   * Frees all leases of the session, as `release` does, and removes its waiters. An unknown session
   * is not an error.
   */
  endSession(request: SessionRequest): Promise<void>;

  /** Reads the current holder of one resource. */
  read(request: ReadRequest): Promise<ReadAnswer>;
  /** One page of the held leases, ordered by resource. */
  list(request: ListRequest): Promise<ListPage>;
  /**
   * Yields the leases that are held now, then every change, pushed by the backend if it can. Ends
   * when the signal aborts.
   */
  watch(request: WatchRequest): AsyncIterable<LeaseView>;
  /**
   * Ends a lease of another holder if it still has this token, and hands the resource off as
   * `release` does. The former holder is notified.
   */
  revoke(request: RevokeRequest): Promise<RevokeOutcome>;

  /** Frees the connections and timers of this process. Leases and sessions stay as they are. */
  close(): Promise<void>;
}

/** What users and the conformance suite may rely on. */
export interface Guarantees {
  /** The name of the store, such as "redis". */
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

/** A request of one session. */
export interface SessionRequest {
  /** The id that the holder chose for its session. Never used for a second one. */
  readonly sessionId: string;
  /** The store must have answered or thrown after this many milliseconds. */
  readonly limitMs: number;
}

/** The request of openSession(). */
export interface OpenSessionRequest extends SessionRequest {
  /** The name of the holder, for readers. It need not be unique. */
  readonly holderId: string;
  /** The ttl that the holder requests. The backend may grant another one; see the answer. */
  readonly ttlMs: number;
  /**
   * A waiter is skipped in a handoff if its session has not been renewed for this many
   * milliseconds, because its process may be stuck. It keeps its place in the queue. Absent: it is
   * skipped only when the session has expired. See queue-policy.ts.
   */
  readonly quietAfterMs?: number | undefined;
  /** Receives what the store learns about the session. Absent if the session never waits. */
  readonly events?: SessionEvents | undefined;
}

/**
 * What a store reports about a session between requests. These calls are an optimisation: they may
 * come late, twice or not at all, and renewals report the same facts. They must not throw.
 */
export interface SessionEvents {
  /** A queued attempt of the session was granted. */
  granted(grant: Grant): void;
  /** A lease of the session was revoked. */
  lost(lease: LeaseRef): void;
  /** Another attempt waits for a resource that the session holds. */
  wanted(lease: LeaseRef): void;
}

/** A request about one attempt to acquire a resource. */
export interface AttemptRequest extends SessionRequest {
  /** The name of the resource. */
  readonly resource: string;
  /** Identifies one acquisition. Never used for a second one, not even on another resource. */
  readonly attempt: string;
}

/** The request of grant(). */
export interface GrantRequest extends AttemptRequest {
  /** The name of the holder, for readers and waiters. */
  readonly holderId: string;
  /** Information about the holder that readers get: any JSON value. */
  readonly value?: unknown;
  /** If busy, queue the attempt until it is granted or withdrawn, or the session ends. */
  readonly queue: boolean;
  /** Waiters with a lower rank come first. A whole number from 0 on. Absent: 0. */
  readonly rank?: number | undefined;
}

/** The answer of grant(). */
export type GrantOutcome =
  /** Held from now on, until the session expires, unless it is released or revoked. */
  | { readonly kind: "granted"; readonly token: bigint }
  /**
   * In the queue. The store reports the grant through `SessionEvents`, or in the answer to a
   * renewal. `holderId` names the current holder; it is absent if unknown.
   */
  | { readonly kind: "queued"; readonly holderId?: string | undefined }
  /** Held by another holder, or another waiter comes first, and `queue` was false. */
  | { readonly kind: "busy"; readonly holderId?: string | undefined }
  /** This attempt was granted earlier and its lease has ended: the request is a late copy. */
  | { readonly kind: "ended" }
  /** The session is unknown or expired. */
  | { readonly kind: "gone" };

/** Identifies one lease: a resource and the token of its grant. */
export interface LeaseRef {
  /** The name of the resource. */
  readonly resource: string;
  /** The fencing token of the grant. */
  readonly token: bigint;
}

/** A queued attempt that was granted. */
export interface Grant extends LeaseRef {
  /** The attempt that was granted. */
  readonly attempt: string;
}

/** The request of renew(). */
export interface RenewRequest extends SessionRequest {
  /** Attempts whose outcome is unknown. The store undoes each of them, as `withdraw` does. */
  readonly withdrawn: readonly { readonly resource: string; readonly attempt: string }[];
  /**
   * Revocations that earlier answers reported in `gone` and that the holder has processed, at most
   * ACKNOWLEDGED_MAX. The store deletes them, conditional on session, resource and token. It
   * ignores unknown ones, so a renewal whose answer was lost can repeat them.
   */
  readonly acknowledged: readonly LeaseRef[];
  /**
   * Grants to queued attempts that the holder has learned of and still holds, at most
   * ACKNOWLEDGED_MAX. The store stops reporting them. Absent: none.
   */
  readonly accepted?: readonly LeaseRef[] | undefined;
}

/** The answer of renew(). */
export type RenewOutcome =
  /** The session lives for `ttlMs` from the moment the store handled the request. */
  | {
      readonly kind: "renewed";
      readonly ttlMs: number;
      /**
       * The leases of the session that were revoked. A revocation is reported by every renewal
       * until one acknowledges it, because the store cannot know whether an answer arrived.
       */
      readonly gone: readonly LeaseRef[];
      /** Grants to queued attempts. Each is reported until it is accepted or has ended. */
      readonly granted?: readonly Grant[] | undefined;
      /** The leases of the session that another attempt waits for. */
      readonly wanted?: readonly LeaseRef[] | undefined;
      /**
       * How many attempts of the session are queued. If the holder knows of more, the store has
       * lost some of them, and the holder repeats these requests.
       */
      readonly waiting?: number | undefined;
    }
  /** The session is unknown or expired, and all its leases with it. */
  | { readonly kind: "gone" };

/** The request of release(). */
export interface ReleaseRequest extends SessionRequest, LeaseRef {
  /** Hands off to a waiter of this holder if one can be granted, else to the next waiter. */
  readonly preferred?: string | undefined;
}

/** The answer of release(). `notHeld`: the session did not hold the resource with this token. */
export type ReleaseOutcome = { readonly kind: "released" } | { readonly kind: "notHeld" };

/** A linearizable read reflects all changes that completed before it began; a stale one may not. */
export type Consistency = "linearizable" | "stale";

/** The request of read(). */
export interface ReadRequest {
  /** The name of the resource. */
  readonly resource: string;
  /** How current the answer must be. */
  readonly consistency: Consistency;
  /** The store must have answered or thrown after this many milliseconds. */
  readonly limitMs: number;
}

/** What a reader sees of a resource. */
export interface LeaseView {
  /** The name of the resource. */
  readonly resource: string;
  /** Absent if the resource is free. */
  readonly holder?: HolderView | undefined;
}

/** What a reader sees of the holder of a resource. */
export interface HolderView {
  /** "(unreadable record)" in lists and watches if another program has overwritten the record. */
  readonly holderId: string;
  /** The session of the lease. A process that starts again has a new one. */
  readonly sessionId: string;
  /** The fencing token of the lease. */
  readonly token: bigint;
  /** The `value` that the holder published. Undefined if it published none. */
  readonly value?: unknown;
  /** Time until the lease expires unless it is renewed, by the store's clock when it was read. */
  readonly expiresInMs: number;
  /**
   * How long ago the lease was granted, in milliseconds, when it was read; never below 0. Renewals
   * do not change it. It is meant for display: make no decision by it. On etcd it compares the wall
   * clocks of holder and reader, on ZooKeeper those of server and reader, and is wrong by the
   * difference between the two. A store that records the time of a handoff only after it reports 0
   * until then. Stores report it for every lease that they grant; it is absent from records of an
   * older version of Tenure.
   */
  readonly heldForMs?: number | undefined;
}

/** The answer of read(): the holder of a resource, and what that is based on. */
export interface ReadAnswer extends LeaseView {
  /** What the answer is based on. */
  readonly evidence: ReadEvidence;
}

/** What an answer is based on, so that a stale read is not mistaken for proof. */
export interface ReadEvidence {
  /** The consistency of the read, as requested. */
  readonly consistency: Consistency;
  /** The backend's own version of what was read, if it has one. */
  readonly revision?: string | undefined;
  /**
   * The age of the answer in milliseconds, apart from the round trip. Absent if it is unknown, as
   * for stale reads from a replica.
   */
  readonly ageMs?: number | undefined;
}

/** The request of list(). */
export interface ListRequest {
  /** Only resources that begin with this text. Empty for all. */
  readonly prefix: string;
  /** Start after this resource. */
  readonly after?: string | undefined;
  /** The most leases in the page. */
  readonly limit: number;
  /** The store must have answered or thrown after this many milliseconds. */
  readonly limitMs: number;
}

/** The answer of list(): one page of the held leases. */
export interface ListPage {
  /** Held leases, ordered by resource. */
  readonly leases: readonly LeaseView[];
  /** Pass as `after` for the next page. Absent on the last page. */
  readonly next?: string | undefined;
}

/** The request of watch(). */
export interface WatchRequest {
  /** Only resources that begin with this text. Empty for all. */
  readonly prefix: string;
  /** Ends the watch when it aborts. */
  readonly signal: AbortSignal;
  /**
   * Called each time all leases that are held have been yielded. After the first call, the absence
   * of a view means that nothing changed.
   */
  readonly onCaughtUp?: (() => void) | undefined;
}

/** The request of revoke(). */
export interface RevokeRequest extends LeaseRef {
  /** The store must have answered or thrown after this many milliseconds. */
  readonly limitMs: number;
}

/** The answer of revoke(). `notHeld`: the resource was not held with this token. */
export type RevokeOutcome = { readonly kind: "revoked" } | { readonly kind: "notHeld" };
