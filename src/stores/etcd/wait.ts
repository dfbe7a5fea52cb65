// Follows the queues that attempts of this process wait in, and reports when one of them becomes
// the oldest, which means that it holds the resource. Renewals read the same queues, so a missed
// event costs at most one renewal interval.
//
// One watch per resource, however many attempts wait, reports the keys that are deleted. A grant
// needs no request: the oldest key of a queue stays the oldest until it is deleted, because new
// keys are always younger. The watch stays open for a moment after the last attempt, so that a
// contended resource costs no request for it. A watch begins "now", not at the revision of the last
// read, because etcd serves watches that begin in the past only every 100 ms. If anything was
// written in between, the queue is read again.

import type { Clock, Timer } from "../../async/clock.ts";
import type { EtcdClient } from "../../clients/etcd/client.ts";
import type { KeyValue } from "../../clients/etcd/kv.ts";
import type { Names } from "../../clients/etcd/names.ts";
import { range, txn, type WatchEvent } from "../../clients/etcd/rpc.ts";
import type { Watches } from "../../clients/etcd/watches.ts";
import { readRecord } from "../../core/record.ts";
import { findNext } from "../queue-policy.ts";
import { moveTxn, QUEUE_READ_MAX, readQueue, wantTxn } from "./grant.ts";
import type { Notes } from "./notes.ts";
import { type Attempt, toGrant } from "./session.ts";

/** A waiter notifies the holder after this time. */
const PATIENCE_MS = 50;
/** How long the watch of a queue stays open after its last waiter of this process. */
const LINGER_MS = 1_000;
/** The limit of requests that no caller waits for. Renewals repeat what they fail to do. */
const LIMIT_MS = 5_000;
/** Deletions are remembered until every read that was in flight at the time has been answered. */
const DELETIONS_MAX = 1_000;

export interface WaitParts {
  readonly client: EtcdClient;
  readonly names: Names;
  readonly watches: Watches;
  readonly notes: Notes;
  readonly clock: Clock;
}

/** A key of the queue. */
type QueueEntry = Omit<KeyValue, "value">;

/** The queues that attempts of this process wait in. */
export class Queues {
  readonly #parts: WaitParts;
  readonly #queues = new Map<string, Queue>();

  constructor(parts: WaitParts) {
    this.#parts = parts;
  }

  /**
   * Follows the queue until the attempt holds the resource. `kvs` are the first keys of the queue
   * at this revision. True: the attempt holds it already.
   */
  join(attempt: Attempt, kvs: readonly KeyValue[], revision: bigint): boolean {
    const { resource } = attempt;
    let queue = this.#queues.get(resource);
    if (queue === undefined) {
      queue = new Queue(this.#parts, resource, () => this.#queues.delete(resource));
      this.#queues.set(resource, queue);
    }
    return queue.join(attempt, kvs, revision);
  }

  leave(attempt: Attempt): void {
    this.#queues.get(attempt.resource)?.leave(attempt);
  }

  /** A renewal has read the queue. */
  update(resource: string, kvs: readonly KeyValue[], revision: bigint): void {
    this.#queues.get(resource)?.update(kvs, revision);
  }

  close(): void {
    for (const queue of [...this.#queues.values()]) queue.close();
  }
}

class Queue {
  readonly #parts: WaitParts;
  readonly #resource: string;
  readonly #onClose: () => void;
  /** The attempts of this process that wait, by id. */
  readonly #waiters = new Map<string, Attempt>();
  /**
   * The oldest keys of the queue, the oldest first, by name. They are the first keys of the last
   * read without those that were deleted since, so the first of them holds the resource.
   */
  #keys = new Map<string, QueueEntry>();
  /** The revision of that read. */
  #revision = 0n;
  /** The revisions of recent deletions by name, for reads that were in flight at the time. */
  readonly #deletions = new Map<string, bigint>();
  #closeWatch: (() => void) | undefined;
  #isReading = false;
  #isDeciding = false;
  #linger: Timer | undefined;
  #patience: Timer | undefined;
  /** The token of the holder that was notified, or will be, and the attempt that waits. */
  #notice = "";
  #isClosed = false;

  constructor(parts: WaitParts, resource: string, onClose: () => void) {
    this.#parts = parts;
    this.#resource = resource;
    this.#onClose = onClose;
  }

  join(attempt: Attempt, kvs: readonly KeyValue[], revision: bigint): boolean {
    this.#linger?.cancel();
    this.#waiters.set(attempt.id, attempt);
    this.#closeWatch ??= this.#watch();
    this.#merge(kvs, revision);
    const holds = this.#findOldest()?.attempt === attempt && attempt.rank === undefined;
    if (holds) this.leave(attempt);
    this.#settle();
    return holds;
  }

  leave(attempt: Attempt): void {
    if (!this.#waiters.delete(attempt.id) || this.#waiters.size > 0) return;
    this.#patience?.cancel();
    this.#linger?.cancel();
    this.#linger = this.#parts.clock.setTimer(() => {
      if (this.#waiters.size === 0) this.close();
    }, LINGER_MS);
  }

  update(kvs: readonly KeyValue[], revision: bigint): void {
    this.#merge(kvs, revision);
    this.#settle();
  }

  close(): void {
    this.#isClosed = true;
    this.#patience?.cancel();
    this.#linger?.cancel();
    this.#closeWatch?.();
    this.#onClose();
  }

  #watch(): () => void {
    const { watches, names } = this.#parts;
    const target = { ...names.queue(this.#resource), deletionsOnly: true };
    return watches.open(target, undefined, {
      onBegin: (revision) => {
        if (revision > this.#revision) void this.#read();
      },
      onEvents: (events) => this.#deleted(events),
      onLost: () => {
        this.#closeWatch = this.#watch();
      },
    });
  }

  async #read(): Promise<void> {
    if (this.#isReading || this.#waiters.size === 0) return;
    this.#isReading = true;
    const { client, names } = this.#parts;
    try {
      const question = readQueue(names.queue(this.#resource));
      const { header, kvs } = await client.call(range, question, { limitMs: LIMIT_MS });
      this.#isReading = false;
      this.update(kvs, header.revision);
    } catch {
      // The next renewal reads the queue.
      this.#isReading = false;
    }
  }

  #merge(kvs: readonly KeyValue[], revision: bigint): void {
    if (revision < this.#revision) return;
    this.#revision = revision;
    this.#keys = new Map();
    for (const { value: _, ...kv } of kvs) {
      const name = toName(kv.key);
      if ((this.#deletions.get(name) ?? 0n) <= revision) this.#keys.set(name, kv);
      const id = this.#parts.names.readQueueKey(kv.key)?.attempt ?? "";
      const waiter = this.#waiters.get(id);
      if (waiter !== undefined) Object.assign(waiter, { key: kv.key, revision: kv.createRevision });
    }
    // The keys of these waiters are gone. The holder repeats their requests; see `waiting`.
    const last = kvs.length < QUEUE_READ_MAX ? undefined : kvs.at(-1);
    const reach = last?.createRevision ?? revision;
    for (const waiter of [...this.#waiters.values()])
      if (waiter.revision <= reach && !kvs.some(({ key }) => key.equals(waiter.key))) {
        waiter.session.waiting.delete(waiter);
        this.leave(waiter);
      }
  }

  #deleted(events: readonly WatchEvent[]): void {
    for (const { kv } of events) {
      const name = toName(kv.key);
      this.#deletions.set(name, kv.modRevision);
      const known = this.#keys.get(name);
      if (known !== undefined && known.createRevision < kv.modRevision) this.#keys.delete(name);
    }
    for (const name of this.#deletions.keys()) {
      if (this.#deletions.size <= DELETIONS_MAX) break;
      this.#deletions.delete(name);
    }
    this.#settle();
  }

  /** The oldest key, and the attempt of this process that it belongs to. */
  #findOldest(): { readonly holder: QueueEntry; attempt?: Attempt | undefined } | undefined {
    const [holder] = this.#keys.values();
    if (holder === undefined) return undefined;
    const id = this.#parts.names.readQueueKey(holder.key)?.attempt ?? "";
    return { holder, attempt: this.#waiters.get(id) };
  }

  /** Grants the resource to a waiter of this process if its key is the oldest. */
  #settle(): void {
    if (this.#waiters.size === 0 || this.#isClosed) return;
    const oldest = this.#findOldest();
    if (oldest === undefined) void this.#read();
    else if (oldest.attempt === undefined) this.#notifyLater(oldest.holder);
    else if (oldest.attempt.rank === undefined) this.#grant(oldest.attempt);
    else void this.#giveWay(oldest.attempt);
  }

  #grant(attempt: Attempt): void {
    const { session } = attempt;
    this.leave(attempt);
    session.granted(attempt, this.#parts.clock.now());
    session.unaccepted.add(attempt);
    session.unstamped.add(attempt);
    this.#parts.notes.held(session);
    session.events?.granted(toGrant(attempt));
    this.#settle();
  }

  /**
   * Notifies the holder that the next waiter waits, if that is an attempt of this process and it
   * still waits after a moment. Short leases therefore cost no notification.
   */
  #notifyLater({ createRevision: token }: QueueEntry): void {
    const waiter = this.#nextWaiter();
    const notice = `${token} ${waiter?.id}`;
    if (waiter === undefined || notice === this.#notice) return;
    this.#notice = notice;
    this.#patience?.cancel();
    this.#patience = this.#parts.clock.setTimer(() => {
      const { client, names } = this.#parts;
      const [holder] = this.#keys.values();
      if (holder?.createRevision !== token || holder.lease === 0n) return;
      if (this.#nextWaiter() !== waiter) return;
      client.call(txn, wantTxn(names, waiter, holder), { limitMs: LIMIT_MS }).catch(() => {
        this.#notice = "";
      });
    }, PATIENCE_MS);
  }

  /** The attempt of the second key, if it belongs to this process. */
  #nextWaiter(): Attempt | undefined {
    const [, next] = this.#keys.values();
    return next && this.#waiters.get(this.#parts.names.readQueueKey(next.key)?.attempt ?? "");
  }

  /**
   * Grants the resource to a ranked attempt, or moves the attempt to the end of the queue if
   * another one comes before it. A revision that may have been given up never becomes a token.
   */
  async #giveWay(attempt: Attempt): Promise<void> {
    if (this.#isDeciding) return;
    this.#isDeciding = true;
    const { client, names } = this.#parts;
    try {
      const { revision } = attempt;
      if (attempt.givenUp !== revision && !(await this.#isFirst(attempt)))
        attempt.givenUp = revision;
      if (attempt.givenUp === revision)
        await client.call(txn, moveTxn(names, attempt), { limitMs: LIMIT_MS });
      else if (this.#findOldest()?.attempt === attempt) this.#grant(attempt);
      this.#isDeciding = false;
      if (attempt.state === "queued") await this.#read();
    } catch {
      // The next renewal of the session decides again.
      this.#isDeciding = false;
    }
  }

  /** Whether the attempt is the next one by rank and preference; see queue-policy.ts. */
  async #isFirst(attempt: Attempt): Promise<boolean> {
    const { client, names } = this.#parts;
    const queue = { ...readQueue(names.queue(this.#resource)), keysOnly: false };
    const question = [{ get: queue }, { get: { key: names.preferred(this.#resource) } }];
    const { answers } = await client.call(
      txn,
      { when: [], yes: question, no: [] },
      { limitMs: LIMIT_MS },
    );
    const [kvs = [], [preferred] = []] = answers.map((answer) => answer.kvs);
    const waiters = kvs.map(({ key, value, createRevision }) => ({
      key,
      rank: names.readQueueKey(key)?.rank ?? 0,
      since: names.readQueueKey(key)?.since ?? createRevision,
      holderId: readRecord(value.toString())?.holderId ?? "",
    }));
    waiters.sort((a, b) => a.rank - b.rank || Number(a.since - b.since));
    const next = findNext(waiters, () => true, preferred?.value.toString());
    return next?.key.equals(attempt.key) === true;
  }
}

function toName(key: Buffer): string {
  return key.toString("latin1");
}
