// The store contract on etcd (3.4 and newer). grant.ts decides which attempt holds a resource,
// batch.ts sends the transactions, wait.ts and notes.ts report to sessions what other processes
// did.

import type { Clock } from "../../async/clock.ts";
import type { EtcdClient, Reply } from "../../clients/etcd/client.ts";
import { isLeaseMissing } from "../../clients/etcd/errors.ts";
import type { TxnAnswer } from "../../clients/etcd/kv.ts";
import type { Names } from "../../clients/etcd/names.ts";
import { leaseRevoke, range, txn } from "../../clients/etcd/rpc.ts";
import { Watches } from "../../clients/etcd/watches.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { encodeRecord } from "../../core/record.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { Transactions } from "./batch.ts";
import {
  grantTxn,
  readGrantAnswer,
  readHolder,
  readQueue,
  releaseTxn,
  revokeTxn,
  wasReleasedBefore,
  withdrawTxn,
} from "./grant.ts";
import { Notes } from "./notes.ts";
import { list, read } from "./read.ts";
import { openSession, renewSession } from "./renew.ts";
import { type Attempt, type Session, Sessions, toGrant } from "./session.ts";
import { Queues } from "./wait.ts";
import { watch } from "./watch.ts";

/**
 * How many queues one renewal reads. etcd accepts 128 operations in a transaction, of which
 * acknowledgements may need 100. A session that waits for more reads the others with its next
 * renewals.
 */
const QUEUES_MAX = 25;

export class EtcdStore implements Store {
  readonly guarantees: contract.Guarantees = {
    store: "etcd",
    tokenSource: "create_revision: the revision of the cluster at which the holder's key was made",
    tokenFalls: "when the cluster is restored from a snapshot without --bump-revision",
    expiryClock: "the leader's monotonic clock; a new leader gives every lease its full time again",
    ttlStepMs: 1_000,
    expiryLagMs: 1_500,
    wakeUp: "push",
    fifo: true,
    durable: true,
  };
  readonly #names: Names;
  readonly #clock: Clock;
  readonly #client: EtcdClient;
  readonly #transactions: Transactions;
  readonly #watches: Watches;
  readonly #sessions: Sessions;
  readonly #notes: Notes;
  readonly #queues: Queues;
  readonly #closing = new AbortController();

  constructor(names: Names, { clock }: StoreParts, client: EtcdClient) {
    this.#names = names;
    this.#clock = clock;
    this.#client = client;
    this.#transactions = new Transactions(client, clock);
    this.#sessions = new Sessions(names);
    const watches = new Watches(client, clock);
    const notes = new Notes({ client, watches, clock });
    this.#watches = watches;
    this.#notes = notes;
    this.#queues = new Queues({ client, names, watches, notes, clock });
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const { sessionId, events } = request;
    for (const session of this.#sessions.expired(this.#clock.now())) this.#forget(session);
    const parts = { client: this.#client, clock: this.#clock };
    const ttlMs = await openSession(parts, this.#names.session(sessionId), request);
    this.#sessions.add(sessionId, events, this.#clock.now() + ttlMs);
    return { ttlMs };
  }

  async grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const { sessionId, attempt: id, holderId, value, queue, limitMs } = request;
    const session = this.#sessions.find(sessionId);
    if (session.ended.has(id)) return { kind: "ended" };
    const record = encodeRecord({ holderId, sessionId, attempt: id, value });
    const attempt = session.begin(request, record);
    const reply = await this.#enter(attempt, queue, limitMs);
    if (reply === undefined) return this.#gone(session);
    const found = readGrantAnswer(this.#names, attempt, reply.answer);
    if (found.kind === "gone") return this.#gone(session);
    if (attempt.state === "ended" || session.isEnded) return { kind: "ended" };
    const { own } = found;
    if (own !== undefined) {
      Object.assign(attempt, { key: own.key, revision: own.createRevision });
      const mayHold = found.kind === "granted" || attempt.state === "held";
      if (found.isOldest && (mayHold || attempt.rank === undefined)) return this.#granted(attempt);
      if (this.#queues.join(attempt, found.queue, reply.answer.header.revision))
        return this.#granted(attempt);
      session.queued(attempt);
      return { kind: "queued", holderId: found.holderId };
    }
    if (found.kind === "marked" || attempt.state === "held") {
      session.end(attempt);
      return { kind: "ended" };
    }
    // A copy of the request that arrives late must not be granted.
    if (attempt.unanswered > 0) await this.withdraw(request);
    else session.attempts.delete(id);
    return { kind: "busy", holderId: found.holderId };
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, withdrawn, acknowledged, accepted = [], limitMs } = request;
    const session = this.#sessions.find(sessionId);
    // A withdrawal that fails is repeated by the next renewal. It must not put this one in doubt.
    const withdrawals = withdrawn.map((attempt) =>
      this.withdraw({ sessionId, limitMs, ...attempt }).catch(() => undefined),
    );
    const resources = pickResources(session);
    const reads = resources.map((resource) => ({ get: readQueue(this.#names.queue(resource)) }));
    const parts = { client: this.#client, clock: this.#clock };
    const question = { acknowledged, reads, limitMs };
    const renewed = await renewSession(parts, session.names, question);
    await Promise.all(withdrawals);
    if (renewed === undefined) return this.#gone(session);
    const { ttlMs, gone, revision, found } = renewed;
    session.aliveUntil = this.#clock.now() + ttlMs;
    for (const [index, resource] of resources.entries())
      this.#queues.update(resource, found[index] ?? [], revision);
    for (const ref of gone) {
      const lease = session.findLease(ref);
      if (lease !== undefined) session.end(lease);
    }
    for (const ref of accepted) {
      const lease = session.findLease(ref);
      if (lease !== undefined) session.unaccepted.delete(lease);
    }
    return {
      kind: "renewed",
      ttlMs,
      gone,
      granted: [...session.unaccepted].map(toGrant),
      wanted: renewed.wanted.filter((ref) => session.findLease(ref) !== undefined),
      waiting: session.waiting.size,
    };
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    const { sessionId, token, preferred } = request;
    this.#closing.signal.throwIfAborted();
    const session = this.#sessions.find(sessionId);
    const lease = session.findLease(request) ?? (await this.#findUnanswered(session, request));
    if (lease === undefined) return { kind: "notHeld" };
    const transaction = releaseTxn(this.#names, lease, preferred);
    const { answer, doubtful } = await this.#transactions.release(request, transaction);
    session.end(lease);
    const isReleased = answer.succeeded || (doubtful && wasReleasedBefore(answer, token));
    return { kind: isReleased ? "released" : "notHeld" };
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    const { sessionId, attempt: id, limitMs } = request;
    const session = this.#sessions.find(sessionId);
    const attempt = session.attempts.get(id);
    if (attempt !== undefined) {
      session.waiting.delete(attempt);
      this.#queues.leave(attempt);
    }
    const transaction = withdrawTxn(this.#names, session, request);
    await this.#client.call(txn, transaction, { limitMs });
    if (attempt !== undefined) session.end(attempt);
  }

  async endSession({ sessionId, limitMs }: contract.SessionRequest): Promise<void> {
    this.#forget(this.#sessions.find(sessionId));
    const { lease } = this.#names.session(sessionId);
    try {
      await this.#client.call(leaseRevoke, lease, { limitMs, foreseen: isLeaseMissing });
    } catch (error) {
      if (!isLeaseMissing(error)) throw error;
    }
  }

  read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    return read(this.#readParts(), request);
  }

  list(request: contract.ListRequest): Promise<contract.ListPage> {
    return list(this.#readParts(), request);
  }

  watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const closing = this.#closing.signal;
    return watch(request, { ...this.#readParts(), watches: this.#watches, closing });
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const { resource, token, limitMs } = request;
    const endsAt = this.#clock.now() + limitMs;
    const { kvs } = await this.#client.call(range, readHolder(this.#names.queue(resource)), {
      limitMs,
    });
    const [holder] = kvs;
    if (holder?.createRevision !== token) return { kind: "notHeld" };
    const { answer, doubtful } = await this.#client.ask(
      txn,
      revokeTxn(this.#names, holder, request),
      { limitMs: endsAt - this.#clock.now() },
    );
    // The note proves that an earlier copy of this request was applied.
    const [note] = answer.answers[0]?.kvs ?? [];
    const isRevoked = answer.succeeded || (doubtful && note?.value.toString() === String(token));
    return { kind: isRevoked ? "revoked" : "notHeld" };
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(this.#client.closedError());
    for (const session of [...this.#sessions]) this.#forget(session);
    this.#queues.close();
    this.#watches.close();
    this.#client.close();
  }

  #readParts(): { client: EtcdClient; names: Names; clock: Clock } {
    return { client: this.#client, names: this.#names, clock: this.#clock };
  }

  /** A lease whose grant was never answered. A caller that read its token may release it. */
  async #findUnanswered(
    session: Session,
    { resource, token, limitMs }: contract.ReleaseRequest,
  ): Promise<Attempt | undefined> {
    const isOpen = (attempt: Attempt): boolean =>
      attempt.resource === resource && attempt.unanswered > 0;
    if (![...session.attempts.values()].some(isOpen)) return undefined;
    const holderOf = readHolder(this.#names.queue(resource));
    const [holder] = (await this.#client.call(range, holderOf, { limitMs })).kvs;
    if (holder?.createRevision !== token || holder.lease !== session.names.lease) return undefined;
    const attempt = session.attempts.get(this.#names.readQueueKey(holder.key)?.attempt ?? "");
    return attempt && Object.assign(attempt, { key: holder.key, revision: token });
  }

  /** Sends the request for a grant. Undefined: the session is gone. */
  async #enter(
    attempt: Attempt,
    queue: boolean,
    limitMs: number,
  ): Promise<Reply<TxnAnswer> | undefined> {
    const { session, resource } = attempt;
    const wallMs = this.#clock.wallNow();
    attempt.unanswered += 1;
    try {
      const reply = await this.#transactions.grant(
        resource,
        (released) => grantTxn(this.#names, attempt, { queue, wallMs, released }),
        limitMs,
      );
      if (!reply.doubtful) attempt.unanswered -= 1;
      return reply;
    } catch (error) {
      const isUnknown = error instanceof StoreUnavailableError && error.applied === "unknown";
      if (!isUnknown) attempt.unanswered -= 1;
      if (attempt.unanswered === 0 && attempt.state === "asked")
        session.attempts.delete(attempt.id);
      if (isLeaseMissing(error)) return undefined;
      throw error;
    }
  }

  #granted(attempt: Attempt): contract.GrantOutcome {
    const { session } = attempt;
    session.granted(attempt, this.#clock.now());
    this.#notes.held(session);
    return { kind: "granted", token: attempt.revision };
  }

  #gone(session: Session): { readonly kind: "gone" } {
    this.#forget(session);
    return { kind: "gone" };
  }

  #forget(session: Session): void {
    this.#sessions.remove(session);
    this.#notes.end(session);
    for (const attempt of session.waiting) this.#queues.leave(attempt);
  }
}

/** The resources whose queues the next renewal reads. All others come first the next time. */
function pickResources(session: Session): string[] {
  const waiting = [...session.waiting];
  const resources = [...new Set(waiting.map(({ resource }) => resource))];
  const picked = resources.slice(0, QUEUES_MAX);
  if (resources.length > QUEUES_MAX)
    for (const attempt of waiting.filter(({ resource }) => picked.includes(resource))) {
      session.waiting.delete(attempt);
      session.waiting.add(attempt);
    }
  return picked;
}
