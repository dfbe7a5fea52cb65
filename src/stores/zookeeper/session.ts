// A Tenure session: one ZooKeeper session with its own connection, the places of its attempts in
// the queues (grant.ts), the watches of its waiters (wait.ts) and its notices (notices.ts). Only
// this process sends requests of the session, so what it remembers is the truth, except where an
// answer was lost: then it reads.

import type { Clock } from "../../async/clock.ts";
import { type Call, within } from "../../clients/zookeeper/call.ts";
import type { Link } from "../../clients/zookeeper/link.ts";
import {
  type Acl,
  CREATE,
  create,
  ERROR,
  exists,
  getData,
  readDataAndStat,
  readStat,
  setData,
} from "../../clients/zookeeper/messages.ts";
import { type Names, nodeBase, sessionName } from "../../clients/zookeeper/names.ts";
import type { Reply } from "../../clients/zookeeper/wire.ts";
import { encodeRecord } from "../../core/record.ts";
import type {
  AttemptRequest,
  Grant,
  GrantOutcome,
  GrantRequest,
  LeaseRef,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  SessionEvents,
} from "../contract.ts";
import { Batch } from "./batch.ts";
import { Place, type Position, removeNodes } from "./grant.ts";
import { Notices } from "./notices.ts";
import { encodeNode, shownNode } from "./record.ts";
import { Waits } from "./wait.ts";

export interface LeaseSessionParts {
  readonly link: Link;
  readonly clock: Clock;
  readonly names: Names;
  readonly acl: Acl;
  /** Parents that exist as far as this process knows. */
  readonly parents: Set<string>;
  readonly events?: SessionEvents | undefined;
}

/** How many ended attempts are remembered. A request that is repeated is repeated soon. */
const ENDED_MAX = 1_000;

export class LeaseSession {
  readonly link: Link;
  /**
   * The end of the time that the last answer granted, on the local clock. The holder has stopped by
   * then.
   */
  aliveUntil: number = Number.POSITIVE_INFINITY;
  readonly #parts: LeaseSessionParts;
  readonly #batch: Batch;
  readonly #waits: Waits;
  readonly #notices = new Notices();
  /** The places of attempts that wait or hold, by attempt. */
  readonly #places = new Map<string, Place>();
  /** The places that hold, by resource. */
  readonly #held = new Map<string, Place>();
  readonly #ended = new Set<string>();
  /** Whether the server will report the next change of the notices node on this connection. */
  #isWatching = false;
  /** The last read of the notices node. */
  #reading: Promise<boolean> | undefined;
  #name = "";

  constructor(parts: LeaseSessionParts) {
    this.#parts = parts;
    this.#batch = new Batch(parts.clock);
    this.link = parts.link;
    this.#waits = new Waits({
      ...parts,
      places: this.#places,
      locate: (call, place) => this.#locate(call, place),
      hold: (place) => this.#hold(place),
      handedOff: (place) => this.#handedOff(place),
      forget: (place) => this.#forget(place),
    });
    this.link.onEvent = (event) => {
      if (event.path !== this.#noticesNode) this.#waits.changed(event);
      else void this.#noticesChanged();
    };
    this.link.onLost = () => {
      this.#isWatching = false;
      this.#waits.lost();
    };
  }

  /** Opens the session and creates its nodes. */
  open(limitMs: number): Promise<void> {
    return this.within(limitMs, async (call) => {
      await this.link.connected();
      this.#name = sessionName(this.link.sessionId);
      await this.#createNodes(call);
    });
  }

  grant(request: GrantRequest): Promise<GrantOutcome> {
    const { attempt, limitMs, queue } = request;
    if (this.#ended.has(attempt)) return Promise.resolve({ kind: "ended" });
    const known = this.#places.get(attempt);
    const place = known ?? this.#newPlace(request);
    // Registered before anything is sent, so that a withdrawal finds it.
    this.#places.set(attempt, place);
    return this.within(limitMs, (call) =>
      place.inTurn(() =>
        known === undefined ? this.#enter(call, place, queue) : this.#repeat(call, place, queue),
      ),
    );
  }

  /** True if the session held this grant until now. */
  async release({ resource, token, preferred, limitMs }: ReleaseRequest): Promise<boolean> {
    const held = this.#held.get(resource);
    if (held?.token === token)
      return this.within(limitMs, (call) => this.#leave(call, held, preferred));
    // If the answer to a grant was lost, the caller may have read the token of that grant.
    const unsure = [...this.#places.values()].filter(
      (place) => place.resource === resource && place.isUnsure,
    );
    if (unsure.length === 0) return false;
    return this.within(limitMs, async (call) => {
      for (const place of unsure) await place.inTurn(() => this.#locate(call, place));
      const found = this.#held.get(resource);
      return found?.token === token && this.#leave(call, found, preferred);
    });
  }

  withdraw(request: Omit<AttemptRequest, "limitMs">, limitMs: number): Promise<unknown> {
    const place = this.#places.get(request.attempt);
    if (place !== undefined) this.#stop(place);
    return this.within(limitMs, (call) => {
      if (place !== undefined) return place.inTurn(() => this.#leave(call, place));
      // A late copy of its request may have created a node.
      return removeNodes(call, this.#parts.names.parent(request.resource), this.#base(request));
    });
  }

  /**
   * One write, however many leases: a majority has confirmed it, and the clock of the session is
   * reset. The server reports a change of the notices node before it answers a later request, so
   * the node is read only after such a report, or if the connection is new.
   */
  renew({ acknowledged, accepted = [], limitMs }: RenewRequest): Promise<RenewOutcome> {
    for (const ref of accepted) {
      const place = this.#held.get(ref.resource);
      if (place?.token === ref.token) place.isAccepted = true;
    }
    this.#notices.acknowledge(acknowledged);
    return this.within(limitMs, async (call) => {
      await call.resetExpiry();
      const write = setData(this.#node, "", -1);
      const [written] = await Promise.all([
        call.ask(write, ERROR.noNode),
        this.#deleteNotices(call),
        this.#updateNotices(call),
        this.#waits.resume(),
      ]);
      const isComplete = await this.#updateNotices(call);
      if (written.error !== 0 || !isComplete) {
        await this.#createNodes(call);
        await call.ask(write);
      }
      const wanted = await this.#findWanted(call);
      const ttlMs = this.link.timeoutMs;
      this.aliveUntil = this.#parts.clock.now() + ttlMs;
      const places = [...this.#places.values()].filter(({ hasLeft }) => !hasLeft);
      const granted = places.filter(({ isHeld, isAccepted }) => isHeld && !isAccepted).map(toGrant);
      const waiting = places.filter(({ isHeld }) => !isHeld).length;
      return { kind: "renewed", ttlMs, gone: this.#notices.lost, granted, wanted, waiting };
    });
  }

  /** Runs requests of this session within a time limit. */
  within<T>(limitMs: number, work: (call: Call) => Promise<T>): Promise<T> {
    return within(this.#parts.clock, this.link, limitMs, work);
  }

  async #enter(call: Call, place: Place, queue: boolean): Promise<GrantOutcome> {
    return this.#answer(call, place, this.#settle(place, await place.enter(call)), queue);
  }

  /** Answers a repeated request: with the grant, or with the position of its node. */
  async #repeat(call: Call, place: Place, queue: boolean): Promise<GrantOutcome> {
    if (this.#ended.has(place.attempt)) return { kind: "ended" };
    // If its node could not be deleted after a busy answer, the attempt continues with it.
    place.hasLeft = false;
    if (!place.isHeld) {
      const position = await this.#locate(call, place);
      if (position.kind === "absent") return this.#enter(call, place, queue);
      if (position.kind === "waiting") return this.#answer(call, place, position, queue);
    } else if (!(await place.exists(call))) {
      this.#end(place);
      return { kind: "ended" };
    }
    await place.stamp(call);
    return toGranted(place);
  }

  async #answer(
    call: Call,
    place: Place,
    position: Position,
    queue: boolean,
  ): Promise<GrantOutcome> {
    if (place.isHeld) return toGranted(place);
    if (!queue && position.kind === "waiting") {
      const holder = place.pathOf(position.first.name);
      const [, reply] = await Promise.all([this.#leave(call, place), call.send(getData(holder))]);
      return { kind: "busy", holderId: readHolderId(reply) };
    }
    const holderId = await this.#waits.start(call, place, position);
    if (!place.isHeld) return { kind: "queued", holderId };
    this.#waits.stampLater(place);
    return toGranted(place);
  }

  async #locate(call: Call, place: Place): Promise<Position> {
    return this.#settle(place, await place.locate(call));
  }

  #settle(place: Place, position: Position): Position {
    if (position.kind === "first") this.#hold(place);
    return position;
  }

  #hold(place: Place): void {
    this.#waits.stop(place);
    place.isHeld = true;
    this.#held.set(place.resource, place);
  }

  #handedOff(place: Place): void {
    this.#hold(place);
    this.#waits.stampLater(place);
    this.#parts.events?.granted(toGrant(place));
  }

  /** Deletes the node of a place. True if it existed. */
  async #leave(call: Call, place: Place, preferred?: string): Promise<boolean> {
    this.#stop(place);
    const existed = await place.leave(call, preferred);
    if (place.isHeld) this.#end(place);
    else this.#forget(place);
    return existed;
  }

  /** From now on the place is not granted anything and its grant is not reported. */
  #stop(place: Place): void {
    place.hasLeft = true;
    this.#waits.stop(place);
  }

  #end(place: Place): void {
    this.#forget(place);
    this.#ended.add(place.attempt);
    const [oldest] = this.#ended;
    if (this.#ended.size > ENDED_MAX && oldest !== undefined) this.#ended.delete(oldest);
  }

  #forget(place: Place): void {
    this.#waits.stop(place);
    this.#places.delete(place.attempt);
    if (this.#held.get(place.resource) === place) this.#held.delete(place.resource);
  }

  #newPlace(request: GrantRequest): Place {
    const { attempt, resource, holderId, sessionId, value, rank } = request;
    const { names, acl, parents } = this.#parts;
    return new Place({
      resource,
      attempt,
      parent: names.parent(resource),
      base: this.#base(request),
      data: encodeNode(this.link.timeoutMs, encodeRecord({ holderId, sessionId, attempt, value })),
      acl,
      parents,
      batch: this.#batch,
      rank: rank === undefined ? undefined : { rank, holderId },
    });
  }

  #base({ sessionId, attempt }: Omit<AttemptRequest, "limitMs">): string {
    return nodeBase(this.#name, sessionId, attempt);
  }

  /** The leases of the session for which another attempt still waits. */
  async #findWanted(call: Call): Promise<LeaseRef[]> {
    const wanted = this.#notices.wanted.filter((ref) => this.#holds(ref));
    const replies = await Promise.all(
      wanted.map(({ resource }) => call.send(exists(this.#parts.names.parent(resource)))),
    );
    const isWanted = (reply: Reply | undefined): boolean =>
      reply?.error === 0 && readStat(reply.body).childCount > 1;
    return wanted.filter((_, index) => isWanted(replies[index]));
  }

  #holds({ resource, token }: LeaseRef): boolean {
    return this.#held.get(resource)?.token === token;
  }

  async #noticesChanged(): Promise<void> {
    this.#isWatching = false;
    const limitMs = this.link.timeoutMs / 3;
    // If this fails, the next renewal reads the node.
    await this.within(limitMs, (call) => this.#updateNotices(call)).catch(() => undefined);
  }

  /** Reads the notices node unless nothing has changed. False if there is no node. */
  async #updateNotices(call: Call): Promise<boolean> {
    await this.#reading?.catch(() => undefined);
    if (this.#isWatching) return true;
    this.#reading = this.#readNotices(call);
    return this.#reading;
  }

  /** Reads the notices node, watches it, and reports what is new. */
  async #readNotices(call: Call): Promise<boolean> {
    // Before the request: the server may report a change together with the answer.
    this.#isWatching = true;
    const asked = call.ask(getData(this.#noticesNode, true), ERROR.noNode);
    const reply = await asked.catch((error: Error) => {
      this.#isWatching = false;
      throw error;
    });
    if (reply.error !== 0) {
      this.#isWatching = false;
      return false;
    }
    const { data, stat } = readDataAndStat(reply.body);
    for (const { kind, ref } of this.#notices.update(data, stat.version)) {
      if (kind === "wanted" && !this.#holds(ref)) continue;
      for (const place of this.#places.values())
        if (kind === "lost" && place.resource === ref.resource && place.token === ref.token)
          this.#end(place);
      this.#parts.events?.[kind](ref);
    }
    return true;
  }

  /** If another process has changed the node since it was read, a later renewal deletes. */
  async #deleteNotices(call: Call): Promise<void> {
    const deletion = this.#notices.deletion((ref) => this.#holds(ref));
    if (deletion === undefined) return;
    const { data, version } = deletion;
    const reply = await call.send(setData(this.#noticesNode, data, version));
    if (reply.error === 0) this.#notices.update(data, readStat(reply.body).version);
  }

  /** Creates the nodes of the session, also if a person has deleted one of them. */
  async #createNodes(call: Call): Promise<void> {
    const node = { data: "", acl: this.#parts.acl, flags: CREATE.ephemeral };
    const creations = [this.#node, this.#noticesNode].map((path) =>
      call.ask(create({ ...node, path }), ERROR.nodeExists),
    );
    await Promise.all([...creations, this.#updateNotices(call)]);
  }

  get #node(): string {
    return this.#parts.names.sessionNode(this.#name);
  }

  get #noticesNode(): string {
    return this.#parts.names.noticesNode(this.#name);
  }
}

/** The answer to a request reports the grant, so renewals need not. */
function toGranted(place: Place): GrantOutcome {
  place.isAccepted = true;
  return { kind: "granted", token: toGrant(place).token };
}

function toGrant({ resource, attempt, token }: Place): Grant {
  if (token === undefined) throw new Error("A place that holds a resource has a token.");
  return { resource, token, attempt };
}

function readHolderId(reply: Reply): string | undefined {
  return reply.error === 0
    ? shownNode(readDataAndStat(reply.body).data).record.holderId
    : undefined;
}
