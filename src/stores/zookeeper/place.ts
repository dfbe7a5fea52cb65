// A place in the queue for one resource, as its owner takes it, looks at it and leaves it. The first place holds.
//
// The number of times that its data were written says what a place is, and only its owner writes:
//   0  just taken. If nobody was before it, it holds from its creation on; if someone was, it holds nothing.
//   1  someone was before it when it was taken: it waits, and holds nothing even when it becomes the first.
//   2  it became the first, and its owner has taken the resource.
// Whoever is passed over (a waiter that is first and does not take) is deleted on the condition that the number is still 1,
// and takes on the same condition, so that only one of the two happens. One that is at 0 is passed over by those only who have
// seen someone before it. Nobody can come before a place any more, so "I am the first" stays true, however old the listing is
// that says so (ADR 012).

import type { Call } from "../../clients/zookeeper/call.ts";
import { refusalOf } from "../../clients/zookeeper/failures.ts";
import { ProtocolError } from "../../clients/zookeeper/jute.ts";
import {
  type Acl,
  CREATE,
  create,
  ERROR,
  exists,
  getChildren2,
  getData,
  multi,
  readDataAndStat,
  readMulti,
  readStat,
  remove,
  setData,
} from "../../clients/zookeeper/messages.ts";
import type { Place as Listed } from "../../clients/zookeeper/names.ts";
import { deleted, expectOk, placesIn } from "../../clients/zookeeper/nodes.ts";
import { assert } from "../../core/assert.ts";
import type { KnownParents } from "./parents.ts";
import { shownPlace } from "./record.ts";
import type { Steps } from "./steps.ts";

export const UNMARKED = 0;
export const WAITING = 1;
const TAKEN = 2;
/** It is created again each time; only a server that removes it at once every time would get this far. */
const PARENT_TRIES = 3;

export interface PlaceParts {
  readonly parent: string;
  /** The beginning of its name, which no other attempt has. */
  readonly prefix: string;
  readonly data: string;
  readonly acl: Acl;
  /** Parents that are known to exist: the others are created in the same flight. */
  readonly parents: KnownParents;
  readonly steps: Steps;
}

export type Verdict =
  | { readonly kind: "held"; readonly token: bigint }
  | { readonly kind: "busy"; readonly holderId: string | undefined };

export class Place {
  readonly #parts: PlaceParts;
  /** Undefined while it is not known whether it was created. */
  #name: string | undefined;
  #token: bigint | undefined;
  #version: number = UNMARKED;
  /** False from the sending of a write to its answer: if that never comes, the node itself must be asked. */
  #isSure = true;
  /** An answer never came: the request may even arrive late, so nothing is taken for granted that it could change. */
  #wasInDoubt = false;
  /**
   * Who was the first when this place was first listed: whoever stands between the two came when it was there, and so was not alone.
   * Forgotten with this place, since another parent may follow, in which the same names are others'.
   */
  #firstSeen: string | undefined;

  constructor(parts: PlaceParts) {
    this.#parts = parts;
  }

  get path(): string | undefined {
    return this.#name === undefined ? undefined : this.#pathOf(this.#name);
  }

  /** Whether a request that was never answered may still create it, or create it once more. */
  get mayComeLate(): boolean {
    return this.#wasInDoubt || !this.#isSure;
  }

  /** One request where the resource is free. */
  async take(call: Call, queue: boolean): Promise<Verdict> {
    const { parent, prefix, data, acl, parents, steps } = this.#parts;
    this.#isSure = false;
    const path = `${parent}/${prefix}`;
    // The parent is written in the same transaction, for the sake of the answer: it tells the transaction's number,
    // which is that of the creation, and how many children there are.
    const place = create({ path, data, acl, flags: CREATE.ephemeralSequential });
    const parts = [place, setData(parent, "", -1)] as const;
    for (let tries = 0; ; tries += 1) {
      const flags = CREATE.container;
      const made = parents.has(parent)
        ? undefined
        : call.send(create({ path: parent, data: "", acl, flags }));
      const taken = steps.take({ call, parent, parts });
      const answer = made === undefined ? await taken : (await Promise.all([taken, made]))[0];
      if (answer.error === ERROR.noNode && tries < PARENT_TRIES) {
        // The server removes the parent of a resource that nobody uses.
        parents.forget(parent);
        continue;
      }
      if (answer.error !== 0) throw refusalOf(answer.error, call.place);
      parents.add(parent);
      const [created, written] = answer.parts;
      if (!created?.path || !written?.stat)
        throw new ProtocolError("a transaction that was not answered part by part");
      this.#name = created.path.slice(parent.length + 1);
      this.#token = written.stat.mzxid;
      this.#version = UNMARKED;
      this.#isSure = true;
      this.#firstSeen = undefined;
      // Nobody else had a place at that very transaction, so nobody is before this one.
      if (written.stat.childCount === 1) return { kind: "held", token: this.#token };
      return (await this.lookAgain(call, queue)) ?? { kind: "busy", holderId: undefined };
    }
  }

  /** Looks again at a place that was taken before, or may have been. Undefined: there is none any more. */
  async lookAgain(call: Call, queue: boolean): Promise<Verdict | undefined> {
    const listing = await call.send(getChildren2(this.#parts.parent));
    if (listing.error === ERROR.noNode) return undefined;
    expectOk(listing, call);
    const places = placesIn(listing);
    if (!(await this.#recognise(call, places))) return undefined;
    this.see(places);
    return this.#judge(call, places, queue);
  }

  /** To be told of every listing. */
  see(places: readonly Listed[]): void {
    if (places.some(({ name }) => name === this.#name)) this.#firstSeen ??= places[0]?.name;
    else this.#firstSeen = undefined;
  }

  /** Of one before this place: whether someone was there when it came. Then it does not hold unless it was written since. */
  wasNotAlone({ name }: Listed): boolean {
    return this.#firstSeen !== undefined && this.#firstSeen !== name;
  }

  /** Whether it is still there. */
  async isThere(call: Call): Promise<boolean> {
    const { path } = this;
    if (path === undefined) return false;
    const reply = await call.send(exists(path));
    if (reply.error === ERROR.noNode) return false;
    expectOk(reply, call);
    return true;
  }

  /** True when there was something to leave. The path was never anyone else's: it has session, attempt and number in it. */
  async leave(call: Call): Promise<boolean> {
    this.#wasInDoubt ||= !this.#isSure;
    const known = this.path === undefined ? false : this.#remove(call, this.path);
    if (!this.#wasInDoubt) return known;
    // There may be another one, from a request that was thought to be lost.
    const [wasThere, listing] = await Promise.all([
      known,
      call.send(getChildren2(this.#parts.parent)),
    ]);
    if (listing.error === ERROR.noNode) return wasThere;
    expectOk(listing, call);
    const own = placesIn(listing).filter((place) => this.#isOwn(place));
    const gone = await Promise.all(
      own.map((place) => deleted(call, remove(this.#pathOf(place.name)))),
    );
    return wasThere || gone.includes(true);
  }

  async #remove(call: Call, path: string): Promise<boolean> {
    const { parent, steps } = this.#parts;
    const { error } = await steps.take({ call, parent, parts: [remove(path)] });
    if (error === ERROR.noNode) return false;
    if (error !== 0) throw refusalOf(error, call.place);
    return true;
  }

  /** Finds its own node by its name, which has the session and the attempt in it. */
  async #recognise(call: Call, places: readonly Listed[]): Promise<boolean> {
    this.#wasInDoubt ||= !this.#isSure;
    const own = places.filter((place) => this.#isOwn(place));
    const [first, ...others] = own;
    if (first?.name !== this.#name) this.#firstSeen = undefined;
    if (first === undefined) return false;
    // The same attempt twice, from a request that was thought to be lost: one is enough.
    await Promise.all(others.map((place) => deleted(call, remove(this.#pathOf(place.name)))));
    if (first.name === this.#name && this.#isSure) return true;
    const reply = await call.send(exists(this.#pathOf(first.name)));
    if (reply.error === ERROR.noNode) return false;
    expectOk(reply, call);
    const stat = readStat(reply.body);
    this.#name = first.name;
    this.#token = stat.czxid;
    this.#version = stat.version;
    this.#isSure = true;
    return true;
  }

  async #judge(call: Call, places: readonly Listed[], queue: boolean): Promise<Verdict> {
    const index = places.findIndex((place) => place.name === this.#name);
    if (index < 0) {
      // Someone has deleted it already.
      this.#name = undefined;
      return { kind: "busy", holderId: undefined };
    }
    assert(this.#token !== undefined, "a place that has a name has a token");
    const first = places[0] as Listed;
    if (index > 0) return { kind: "busy", holderId: await this.#giveWay(call, first, queue) };
    const holds =
      this.#version === TAKEN ||
      (this.#version === UNMARKED ? await this.#takeUnmarked(call) : await this.#confirm(call));
    return holds ? { kind: "held", token: this.#token } : { kind: "busy", holderId: undefined };
  }

  /** Says that it waits, or goes away; and asks who holds. */
  async #giveWay(call: Call, first: Listed, queue: boolean): Promise<string | undefined> {
    const own = this.path as string;
    const { data } = this.#parts;
    this.#isSure = false;
    const [moved, holder] = await Promise.all([
      !queue
        ? call.send(remove(own))
        : this.#version === UNMARKED
          ? call.send(setData(own, data, UNMARKED))
          : undefined,
      call.send(getData(this.#pathOf(first.name))),
    ]);
    if (moved !== undefined && moved.error !== ERROR.noNode && moved.error !== ERROR.badVersion)
      expectOk(moved, call);
    this.#isSure = true;
    if (!queue || moved?.error === ERROR.noNode) this.#name = undefined;
    else this.#version = Math.max(this.#version, WAITING);
    if (holder.error !== 0) return undefined;
    const { data: theirs, stat } = readDataAndStat(holder.body);
    return stat.version === WAITING ? undefined : shownPlace(theirs).record.holderId;
  }

  /**
   * Says that it waits and takes, in one step, where neither has been said: those behind it may have seen someone before it and
   * pass it over, and a mark that was thought to be lost could arrive while it holds. False when it is gone.
   */
  async #takeUnmarked(call: Call): Promise<boolean> {
    const path = this.path as string;
    const { data } = this.#parts;
    this.#isSure = false;
    const reply = await call.send(
      multi([setData(path, data, UNMARKED), setData(path, data, WAITING)]),
    );
    const error = reply.error === 0 ? readMulti(reply.body).error : reply.error;
    if (error === ERROR.noNode) return false;
    // Such a mark has arrived.
    if (error === ERROR.badVersion) return this.#confirm(call);
    if (error !== 0) throw refusalOf(error, call.place);
    this.#version = TAKEN;
    this.#isSure = true;
    return true;
  }

  /** Takes what it waited for; false when it was passed over meanwhile. */
  async #confirm(call: Call): Promise<boolean> {
    const path = this.path as string;
    this.#isSure = false;
    const reply = await call.send(setData(path, this.#parts.data, WAITING));
    if (reply.error === ERROR.noNode) return false;
    if (reply.error === ERROR.badVersion) {
      // It was taken before, and the answer got lost.
      const stat = await call.send(exists(path));
      if (stat.error !== 0 || readStat(stat.body).version < TAKEN) return false;
    } else expectOk(reply, call);
    this.#version = TAKEN;
    this.#isSure = true;
    return true;
  }

  #isOwn({ name }: Listed): boolean {
    const { prefix } = this.#parts;
    return name.startsWith(prefix) && /^-?\d+$/.test(name.slice(prefix.length));
  }

  #pathOf(name: string): string {
    return `${this.#parts.parent}/${name}`;
  }
}
