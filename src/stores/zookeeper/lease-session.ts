// A Tenure session: one ZooKeeper session with a connection of its own, the places that its attempts have, and a node in
// which a revoker leaves a notice. This process alone speaks for the session, so what it remembers of its own places is the
// truth, except where an answer got lost: then the server is asked.

import type { Clock } from "../../async/clock.ts";
import { type Call, within } from "../../clients/zookeeper/call.ts";
import { SessionOverError } from "../../clients/zookeeper/failures.ts";
import type { Link } from "../../clients/zookeeper/link.ts";
import {
  type Acl,
  CREATE,
  create,
  ERROR,
  getData,
  readDataAndStat,
  readStat,
  setData,
  sync,
} from "../../clients/zookeeper/messages.ts";
import { type Names, placePrefix, sessionName } from "../../clients/zookeeper/names.ts";
import { expectOk } from "../../clients/zookeeper/nodes.ts";
import type { Reply } from "../../clients/zookeeper/wire.ts";
import { encodeRecord } from "../../core/record.ts";
import type { GrantOutcome, GrantRequest, LeaseRef } from "../contract.ts";
import { Bells } from "./bells.ts";
import { Notices } from "./notices.ts";
import type { KnownParents } from "./parents.ts";
import { Place } from "./place.ts";
import { lookAt } from "./reading.ts";
import { decodeNotices, decodePlace, encodePlace } from "./record.ts";
import { Steps } from "./steps.ts";

export interface LeaseSessionParts {
  readonly link: Link;
  readonly clock: Clock;
  readonly names: Names;
  readonly acl: Acl;
  readonly parents: KnownParents;
}

interface Entry {
  readonly resource: string;
  readonly place: Place;
  /** Set once it was granted. */
  token?: bigint;
}

/** A request that comes twice comes soon: this many attempts that have ended are remembered. */
const ENDED_MAX = 1_000;

export class LeaseSession {
  readonly link: Link;
  readonly bells: Bells = new Bells();
  /** The end of the time that the last answer granted, on the local clock: the holder has stopped by then. */
  aliveUntil: number = Number.POSITIVE_INFINITY;
  readonly #parts: LeaseSessionParts;
  readonly #steps: Steps;
  readonly #entries = new Map<string, Entry>();
  /** Who holds a resource for this session, by resource. */
  readonly #held = new Map<string, { readonly attempt: string; readonly entry: Entry }>();
  readonly #ended = new Set<string>();
  /** Ended, but a request for its place was never answered and may still arrive: whoever withdraws it looks again. */
  readonly #late = new Map<string, Entry>();
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #notices = new Notices();
  /** How often the session's node had been written when it was last renewed. */
  #renewals = 0;
  #nameOf = 0n;
  #knownName = sessionName(0n);

  constructor(parts: LeaseSessionParts) {
    this.#parts = parts;
    this.#steps = new Steps(parts.clock);
    this.link = parts.link;
    this.link.onEvent = ({ path }) => this.bells.ring(path);
    this.link.onLost = () => this.bells.ringAll();
  }

  /** Makes the session and its nodes. */
  open(limitMs: number): Promise<void> {
    return this.#within(limitMs, async (call) => {
      await this.link.connected();
      await this.#createNodes(call);
    });
  }

  grant(request: GrantRequest): Promise<GrantOutcome> {
    const { attempt, limitMs } = request;
    return this.#within(limitMs, (call) => this.#inTurn(attempt, () => this.#grant(call, request)));
  }

  /**
   * One write, however many leases: a majority has confirmed it, and the clock of the session is reset. It has no condition,
   * so that nobody's revocations can make it fail; but its answer tells whether there were any since the last. Where there are
   * acknowledged notices to delete, a second write goes with it.
   */
  renew(acknowledged: readonly LeaseRef[], limitMs: number): Promise<readonly LeaseRef[]> {
    this.#notices.acknowledge(acknowledged);
    return this.#within(limitMs, async (call) => {
      await call.resetExpiry();
      const write = (): Promise<Reply> => call.send(setData(this.#node, "", -1));
      const [first, isTidy] = await Promise.all([write(), this.#deleteNotices(call)]);
      let reply = first;
      if (reply.error === ERROR.noNode) {
        await this.#createNodes(call);
        reply = await write();
      }
      expectOk(reply, call);
      const { version } = readStat(reply.body);
      if (version !== this.#renewals + 1 || !isTidy) await this.#readNotices(call);
      this.#renewals = version;
      return this.#notices.unacknowledged;
    });
  }

  /** True when this very grant was held until now. */
  release(ref: LeaseRef, limitMs: number): Promise<boolean> {
    const held = this.#held.get(ref.resource);
    if (held?.entry.token !== ref.token) return this.#releaseUnheard(ref, limitMs);
    return this.#within(limitMs, async (call) => {
      const wasThere = await held.entry.place.leave(call);
      this.#end(held.attempt, held.entry);
      return wasThere;
    });
  }

  withdraw(resource: string, attempt: string, limitMs: number): Promise<void> {
    const entry = this.#entries.get(attempt) ?? this.#late.get(attempt);
    if (entry?.resource !== resource) return Promise.resolve();
    return this.#within(limitMs, (call) =>
      this.#inTurn(attempt, async () => {
        await entry.place.leave(call);
        if (entry.token === undefined) this.#forget(attempt, entry);
        else this.#end(attempt, entry);
      }),
    );
  }

  /** The place that an attempt has, or may get. */
  placeOf(attempt: string): Place | undefined {
    return this.#entries.get(attempt)?.place;
  }

  within<T>(limitMs: number, work: (call: Call) => Promise<T>): Promise<T> {
    return this.#within(limitMs, work);
  }

  async #grant(call: Call, request: GrantRequest): Promise<GrantOutcome> {
    const { attempt, resource, queue } = request;
    if (this.#ended.has(attempt)) return { kind: "ended" };
    let entry = this.#entries.get(attempt);
    if (entry?.token !== undefined) {
      if (await entry.place.isThere(call)) return { kind: "granted", token: entry.token };
      this.#end(attempt, entry);
      return { kind: "ended" };
    }
    const isNew = entry === undefined;
    // Known before anything is sent, so that a withdrawal finds it.
    entry ??= { resource, place: this.#newPlace(request) };
    this.#entries.set(attempt, entry);
    const { place } = entry;
    const before = isNew ? undefined : await place.lookAgain(call, queue);
    const verdict = before ?? (await place.take(call, queue));
    if (verdict.kind === "busy") {
      if (!queue) this.#forget(attempt, entry);
      return verdict;
    }
    entry.token = verdict.token;
    this.#held.set(resource, { attempt, entry });
    return { kind: "granted", token: verdict.token };
  }

  /** A grant whose answer got lost: whoever has read its token may release it, and only the server knows of it. */
  async #releaseUnheard(ref: LeaseRef, limitMs: number): Promise<boolean> {
    const { resource, token } = ref;
    const isOpen = (entry: Entry): boolean =>
      entry.resource === resource && entry.token === undefined;
    if (![...this.#entries.values()].some(isOpen)) return false;
    const parent = this.#parts.names.parent(resource);
    return this.#within(limitMs, async (call) => {
      const [, { holder }] = await Promise.all([call.send(sync(parent)), lookAt(call, parent)]);
      if (holder?.session !== this.#name || holder.stat.czxid !== token) return false;
      const { attempt } = decodePlace(holder.data).record;
      const entry = this.#entries.get(attempt);
      if (entry?.resource !== resource) return false;
      return this.#inTurn(attempt, async () => {
        const wasThere = await entry.place.leave(call);
        this.#end(attempt, entry);
        return wasThere;
      });
    });
  }

  #newPlace({ attempt, resource, holderId, sessionId, value }: GrantRequest): Place {
    const { names, acl, parents } = this.#parts;
    return new Place({
      parent: names.parent(resource),
      prefix: placePrefix(this.#name, sessionId, attempt),
      data: encodePlace(this.link.timeoutMs, encodeRecord({ holderId, sessionId, attempt, value })),
      acl,
      parents,
      steps: this.#steps,
    });
  }

  #end(attempt: string, entry: Entry): void {
    this.#forget(attempt, entry);
    if (this.#held.get(entry.resource)?.entry === entry) this.#held.delete(entry.resource);
    this.#ended.add(attempt);
    dropOldest(this.#ended);
  }

  #forget(attempt: string, entry: Entry): void {
    this.#entries.delete(attempt);
    if (!entry.place.mayComeLate) return;
    this.#late.set(attempt, entry);
    dropOldest(this.#late);
  }

  async #readNotices(call: Call): Promise<void> {
    const reply = await call.send(getData(this.#noticesNode));
    if (reply.error === ERROR.noNode) {
      this.#notices.read([], 0);
      return;
    }
    expectOk(reply, call);
    const { data, stat } = readDataAndStat(reply.body);
    const found = decodeNotices(data);
    this.#notices.read(found, stat.version);
    for (const notice of found) {
      const held = this.#held.get(notice.resource);
      if (held?.entry.token === notice.token) this.#end(held.attempt, held.entry);
    }
  }

  /** False when the node has changed since it was read, and nothing was deleted: it has to be read again. */
  async #deleteNotices(call: Call): Promise<boolean> {
    const { deletion } = this.#notices;
    if (deletion === undefined) return true;
    const { data, version, handled } = deletion;
    const reply = await call.send(setData(this.#noticesNode, data, version));
    if (reply.error !== 0) return false;
    this.#notices.deleted(handled, readStat(reply.body).version);
    return true;
  }

  /** Also where somebody has deleted one of them. */
  async #createNodes(call: Call): Promise<void> {
    const { acl } = this.#parts;
    const paths = [this.#node, this.#noticesNode];
    const flags = CREATE.ephemeral;
    const replies = await Promise.all(
      paths.map((path) => call.send(create({ path, data: "", acl, flags }))),
    );
    for (const reply of replies) if (reply.error !== ERROR.nodeExists) expectOk(reply, call);
    this.#renewals = 0;
  }

  /** A session has its number from its opening on, and keeps it. */
  get #name(): string {
    if (this.#nameOf !== this.link.sessionId) {
      this.#nameOf = this.link.sessionId;
      this.#knownName = sessionName(this.#nameOf);
    }
    return this.#knownName;
  }

  get #node(): string {
    return this.#parts.names.sessionNode(this.#name);
  }

  get #noticesNode(): string {
    return this.#parts.names.noticesNode(this.#name);
  }

  /** Requests of one attempt one after another: the second finds what the first has done. */
  #inTurn<T>(attempt: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(attempt);
    const turn = before === undefined ? work() : before.then(work, work);
    this.#turns.set(attempt, turn);
    const done = (): void => {
      if (this.#turns.get(attempt) === turn) this.#turns.delete(attempt);
    };
    turn.then(done, done);
    return turn;
  }

  #within<T>(limitMs: number, work: (call: Call) => Promise<T>): Promise<T> {
    return within(this.#parts.clock, this.link, limitMs, work);
  }
}

function dropOldest(remembered: Set<string> | Map<string, unknown>): void {
  const [oldest] = remembered.keys();
  if (remembered.size > ENDED_MAX && oldest !== undefined) remembered.delete(oldest);
}

/** What to answer when the session is over. */
export async function unlessOver<T>(request: Promise<T>, over: T): Promise<T> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof SessionOverError) return over;
    throw error;
  }
}
