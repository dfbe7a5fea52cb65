// The rule that decides which attempt holds a resource: the queue is the lock.
//
// - Each attempt creates an ephemeral, sequential node below the node of the resource. The first
//   node holds the resource. The transaction that created it (its czxid) is the token.
// - Deleting the first node frees the resource and thereby grants it to the next one. A release, a
//   withdrawal and a revocation delete one node; the end of a session deletes all its nodes.
// - The transaction that creates the node also writes the parent. The answer to that write contains
//   the number of the transaction, which is the token, and the number of children. If the node is
//   the only child, it is the first: a free resource costs one request.
// - Otherwise the attempt lists the children once and watches the node before its own. If that node
//   was the first one, its deletion means that the attempt holds the resource, and no further
//   request is needed. If it was a waiter, the attempt lists the children again.
//
// This is safe however old the listing is: nodes are only added at the end, so no node can come
// before an existing one, and "I am the first" stays true for as long as the node exists. Tokens
// increase because a node that comes later has a higher czxid. The numbers of the nodes start again
// when the server has removed an unused parent, but a parent is removed only if it has no children,
// so nodes that exist together are numbered by one counter.
//
// Nothing depends on the data of a node. A waiter cannot be skipped, because its token would then
// be lower than that of a former holder.
//
// Rank and preferred holder. A request may name a rank; then the name of its node contains the
// rank and a hash of the holder id. Such a node holds the resource as soon as it is the first, but
// its owner uses it only if no other waiter comes before it by preference (`findPreferred`).
// Otherwise it deletes its node and creates a new one at the end, in one transaction, and keeps
// waiting. The new name contains the number of the attempt's first node, which decides between
// waiters of the same rank. A release that names a preferred holder writes the hash of that holder
// to the parent, and the waiter that it was meant for clears it.

import type { Call } from "../../clients/zookeeper/call.ts";
import { ProtocolError } from "../../clients/zookeeper/jute.ts";
import {
  type Acl,
  CREATE,
  check,
  create,
  ERROR,
  exists,
  getChildren2,
  getData,
  type Message,
  type MultiAnswer,
  readDataAndStat,
  readStat,
  remove,
  setData,
  sync,
} from "../../clients/zookeeper/messages.ts";
import { isNodeOf, order, type QueueNode, queueNodesOf } from "../../clients/zookeeper/names.ts";
import type { Reply } from "../../clients/zookeeper/wire.ts";
import type { Batch } from "./batch.ts";

/** How often the parent is created again if the server removes it in between. */
const PARENT_TRIES = 3;
const KNOWN_PARENTS_MAX = 10_000;

export interface PlaceParts {
  readonly resource: string;
  readonly attempt: string;
  readonly parent: string;
  /** The beginning of its node's name, which no other attempt has. */
  readonly base: string;
  readonly data: string;
  readonly acl: Acl;
  /** Parents that exist as far as this process knows. Others are created in the same flight. */
  readonly parents: Set<string>;
  readonly batch: Batch;
  /** Absent: the attempt does not care about ranks and preferred holders. */
  readonly rank?: { readonly rank: number; readonly holderId: string } | undefined;
}

/** Where an attempt is in the queue. */
export type Position =
  /** It holds the resource. */
  | { readonly kind: "first" }
  /** `before` is the node directly before its own, `first` that of the holder. */
  | { readonly kind: "waiting"; readonly before: QueueNode; readonly first: QueueNode }
  /** It has no node. */
  | { readonly kind: "absent" };

/** The place of one attempt in the queue of a resource, also while it holds the resource. */
export class Place {
  readonly resource: string;
  readonly attempt: string;
  readonly parent: string;
  isHeld = false;
  /** The holder knows that the attempt was granted. */
  isAccepted = false;
  /** A release or withdrawal was requested. */
  hasLeft = false;
  /** The node was created before it held the resource, so its mtime is too early. */
  hasWaited = false;
  readonly #parts: PlaceParts;
  #turn: Promise<unknown> | undefined;
  /** Undefined while it is unknown whether the node exists. */
  #name: string | undefined;
  #token: bigint | undefined;
  /** The number of the attempt's first node, if it has created a second one. */
  #arrival: number | undefined;
  /** A request that creates or deletes a node was sent and not answered. */
  #isUnsure = false;
  /** The answer to a creation was lost, so a late copy of it may create a second node. */
  #mayHaveCopies = false;

  constructor(parts: PlaceParts) {
    this.#parts = parts;
    this.resource = parts.resource;
    this.attempt = parts.attempt;
    this.parent = parts.parent;
  }

  get token(): bigint | undefined {
    return this.#token;
  }

  get path(): string | undefined {
    return this.#name === undefined ? undefined : this.pathOf(this.#name);
  }

  /** Whether the attempt uses the resource only if no other waiter is preferred. */
  get isRanked(): boolean {
    return this.#parts.rank !== undefined;
  }

  /** Whether the answer to a creation or deletion of the node was lost. */
  get isUnsure(): boolean {
    return this.#isUnsure;
  }

  pathOf(name: string): string {
    return `${this.parent}/${name}`;
  }

  /** Requests of one attempt run one after another: the second finds what the first has done. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn === undefined ? work() : this.#turn.then(work, work);
    this.#turn = turn;
    const done = (): void => {
      if (this.#turn === turn) this.#turn = undefined;
    };
    turn.then(done, done);
    return turn;
  }

  /** Creates the node. One request if the resource is free and no rank is named. */
  async enter(call: Call): Promise<Position> {
    const { parents, acl } = this.#parts;
    const { parent } = this;
    // A ranked attempt must not overwrite the preferred holder, which the parent contains.
    const second = this.isRanked ? check(parent, -1) : setData(parent, "", -1);
    for (let tries = 0; ; tries += 1) {
      const isNew = !parents.has(parent);
      const container = { path: parent, data: "", acl, flags: CREATE.container };
      const made = isNew ? call.send(create(container)) : undefined;
      const taken = this.#create(call, [this.#creation(), second]);
      const [answer] = made === undefined ? [await taken] : await Promise.all([taken, made]);
      if (answer.error === ERROR.noNode && tries < PARENT_TRIES) {
        // The server removes the parent of a resource that is not used.
        parents.delete(parent);
        continue;
      }
      this.#entered(call, answer, 0);
      if (parents.size >= KNOWN_PARENTS_MAX) parents.clear();
      parents.add(parent);
      if (this.isRanked) return this.locate(call);
      const stat = answer.parts[1]?.stat;
      if (stat === undefined) throw new ProtocolError("an incomplete answer to a transaction");
      this.#token = stat.mzxid;
      return stat.childCount === 1 ? { kind: "first" } : this.locate(call);
    }
  }

  /** Lists the queue to find the attempt's position, also if it is unknown whether it has one. */
  async locate(call: Call): Promise<Position> {
    for (;;) {
      // A lost request may still be applied. The answer to sync comes after that: the leader
      // rejects later requests of the connection that the session had before.
      const isUnsure = this.#isUnsure;
      if (isUnsure) await call.ask(sync(this.parent));
      const [listing, note] = await Promise.all([
        call.ask(getChildren2(this.parent), ERROR.noNode),
        this.isRanked ? call.ask(getData(this.parent), ERROR.noNode) : undefined,
      ]);
      if (isUnsure) this.#isUnsure = false;
      const queue = queueIn(listing);
      const own = await this.#recognise(call, queue);
      const [first] = queue;
      if (own === undefined || first === undefined) {
        this.#name = undefined;
        return { kind: "absent" };
      }
      const before = queue[queue.indexOf(own) - 1];
      if (before !== undefined) return { kind: "waiting", before, first };
      if (note === undefined || this.#isPreferred(call, queue, note)) return { kind: "first" };
      call.throwIfOver();
      await this.#giveWay(call, own);
    }
  }

  /** Whether the node still exists. */
  async exists(call: Call): Promise<boolean> {
    const { path } = this;
    if (path === undefined) return false;
    return (await call.ask(exists(path), ERROR.noNode)).error === 0;
  }

  /**
   * Writes the node again without a change if it has waited. Its mtime then says since when it
   * holds the resource.
   */
  async stamp(call: Call): Promise<void> {
    const { path, hasWaited } = this;
    this.hasWaited = false;
    if (hasWaited && path !== undefined) await call.send(setData(path, this.#parts.data, -1));
  }

  /**
   * Deletes the node. True if it existed. The path contains session, attempt and number, so no
   * other grant ever has it.
   */
  async leave(call: Call, preferred?: string): Promise<boolean> {
    const known = this.path === undefined ? false : this.#remove(call, this.path, preferred);
    if (!this.#mayHaveCopies) return known;
    const others = removeNodes(call, this.parent, this.#parts.base);
    return (await Promise.all([known, others])).includes(true);
  }

  async #remove(call: Call, path: string, preferred: string | undefined): Promise<boolean> {
    const removal = remove(path);
    const parts: [Message, ...Message[]] =
      preferred === undefined
        ? [removal]
        : [setData(this.parent, hashHolder(preferred), -1), removal];
    const { error } = await this.#change(call, path, parts);
    if (error !== 0 && error !== ERROR.noNode) throw call.refusal(error);
    return error === 0;
  }

  /** Sends a transaction that creates a node. */
  async #create(call: Call, parts: readonly [Message, ...Message[]]): Promise<MultiAnswer> {
    const hadCopies = this.#mayHaveCopies;
    this.#mayHaveCopies = true;
    this.#name = undefined;
    this.#token = undefined;
    const answer = await this.#change(call, this.parent, parts);
    this.#mayHaveCopies = hadCopies;
    return answer;
  }

  async #change(
    call: Call,
    key: string,
    parts: readonly [Message, ...Message[]],
  ): Promise<MultiAnswer> {
    this.#isUnsure = true;
    const answer = await this.#parts.batch.take({ call, key, parts });
    this.#isUnsure = false;
    return answer;
  }

  #creation(): Message {
    const { base, data, acl, rank } = this.#parts;
    const tag =
      rank === undefined ? "" : `@${rank.rank}.${hashHolder(rank.holderId)}.${this.#arrival ?? ""}`;
    const path = this.pathOf(`${base}${tag}_`);
    return create({ path, data, acl, flags: CREATE.ephemeralSequential });
  }

  #entered(call: Call, { error, parts }: MultiAnswer, at: number): void {
    if (error !== 0) throw call.refusal(error);
    const path = parts[at]?.path;
    if (path === undefined) throw new ProtocolError("an incomplete answer to a transaction");
    this.#name = path.slice(this.parent.length + 1);
  }

  /** Finds the attempt's own node by its name, and learns its token. */
  async #recognise(call: Call, queue: QueueNode[]): Promise<QueueNode | undefined> {
    const [own, ...copies] = queue.filter(({ name }) => isNodeOf(this.#parts.base, name));
    for (const copy of copies) {
      queue.splice(queue.indexOf(copy), 1);
      await call.ask(remove(this.pathOf(copy.name)), ERROR.noNode);
    }
    if (own === undefined || (own.name === this.#name && this.#token !== undefined)) return own;
    const reply = await call.ask(exists(this.pathOf(own.name)), ERROR.noNode);
    if (reply.error !== 0) return undefined;
    this.#name = own.name;
    this.#token = readStat(reply.body).czxid;
    return own;
  }

  /** Whether a ranked attempt that is the first may use the resource. */
  #isPreferred(call: Call, queue: readonly QueueNode[], parent: Reply): boolean {
    if (parent.error !== 0) return true;
    const { data: note, stat } = readDataAndStat(parent.body);
    if (findPreferred(queue, note) !== queue[0]) return false;
    // Best effort: an outdated note only affects the order of later waiters.
    if (note !== "") void call.send(setData(this.parent, "", stat.version)).catch(() => undefined);
    return true;
  }

  /** Moves the attempt to the end of the queue. */
  async #giveWay(call: Call, own: QueueNode): Promise<void> {
    this.#arrival = own.arrival;
    const parts = [remove(this.pathOf(own.name)), this.#creation()] as const;
    const answer = await this.#create(call, parts);
    // If the node was deleted in the meantime, the next listing shows that.
    if (answer.error !== ERROR.noNode) this.#entered(call, answer, 1);
  }
}

/** The waiter that should hold the resource. `note` is the hash of a preferred holder, or empty. */
export function findPreferred(queue: readonly QueueNode[], note: string): QueueNode | undefined {
  const ranked = [...queue].sort(
    (one, other) => one.rank - other.rank || order(one.arrival, other.arrival),
  );
  return ranked.find(({ holder }) => holder === note) ?? ranked[0];
}

/** Deletes all nodes of an attempt, also those of requests that arrived late. */
export async function removeNodes(call: Call, parent: string, base: string): Promise<boolean> {
  const synced = call.ask(sync(parent));
  const [reply] = await Promise.all([call.ask(getChildren2(parent), ERROR.noNode), synced]);
  const own = queueIn(reply).filter(({ name }) => isNodeOf(base, name));
  const removals = own.map(({ name }) => call.ask(remove(`${parent}/${name}`), ERROR.noNode));
  return (await Promise.all(removals)).some(({ error }) => error === 0);
}

/** The queue of a resource, in order. Empty if the resource has no node. */
export function queueIn(listing: Reply): QueueNode[] {
  return listing.error === 0 ? queueNodesOf(listing.body.texts()) : [];
}

/** FNV-1a. Two holders with the same hash would only be confused in their preference. */
function hashHolder(holderId: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < holderId.length; at += 1)
    hash = Math.imul(hash ^ holderId.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
