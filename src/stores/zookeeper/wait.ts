// Watches the node before each waiter of a session, and so learns that the waiter holds the
// resource. If a connection is lost, its watches are lost too, and the waiters are located again.
// A waiter that comes directly after the holder and waits for a while reports that to the holder's
// session.

import type { Clock, Timer } from "../../async/clock.ts";
import { type Call, within } from "../../clients/zookeeper/call.ts";
import type { Link } from "../../clients/zookeeper/link.ts";
import {
  ERROR,
  getData,
  readDataAndStat,
  type WatchEvent,
} from "../../clients/zookeeper/messages.ts";
import type { Names } from "../../clients/zookeeper/names.ts";
import type { Place, Position } from "./grant.ts";
import { readAppend } from "./notices.ts";
import { type Notice, shownNode } from "./record.ts";

/** A lease that is held for less than this is neither wanted nor stamped, which saves requests. */
const PATIENCE_MS = 50;
/** How long after the loss of a connection the waiters are located again. */
const RESUME_MS = 25;
/** How often a notice is appended again if another process has changed the node in between. */
const NOTICE_TRIES = 5;

export interface WaitsParts {
  readonly link: Link;
  readonly clock: Clock;
  readonly names: Names;
  /** The places of the session, by attempt. */
  readonly places: ReadonlyMap<string, Place>;
  /** Finds the position of a place, and marks it as held if it is the first. */
  locate(call: Call, place: Place): Promise<Position>;
  /** Marks a place as held. */
  hold(place: Place): void;
  /** Marks a place as held, and reports that it was granted. */
  handedOff(place: Place): void;
  /** A waiter has no node any more. */
  forget(place: Place): void;
}

interface Watch {
  readonly path: string;
  /** The ZooKeeper session of the watched node. */
  readonly session: string;
  /** Whether the watched node was the first: its deletion hands the resource off. */
  readonly isHolder: boolean;
  /** The notice that the holder's session gets if the wait lasts. Absent after that. */
  notice?: Notice;
}

export class Waits {
  readonly #parts: WaitsParts;
  readonly #watches = new Map<Place, Watch>();
  readonly #watchers = new Map<string, Place>();
  readonly #timers = new Map<Place, Timer>();
  #resumption: Timer | undefined;

  constructor(parts: WaitsParts) {
    this.#parts = parts;
  }

  /** Watches the node before a waiter. Resolves with the name of the holder, if it is known. */
  async start(call: Call, place: Place, from: Position): Promise<string | undefined> {
    for (let position = from; ; position = await this.#parts.locate(call, place)) {
      if (position.kind === "absent") this.#parts.forget(place);
      if (position.kind !== "waiting" || place.hasLeft) return undefined;
      const { before, first } = position;
      const watch: Watch = {
        path: place.pathOf(before.name),
        session: before.session,
        isHolder: before === first,
      };
      place.hasWaited = true;
      // Before the request: the server may report a change together with the answer.
      this.stop(place);
      this.#watches.set(place, watch);
      this.#watchers.set(watch.path, place);
      const asked = call.ask(getData(watch.path, true), ERROR.noNode);
      const reply = await asked.catch((error: Error) => {
        this.stop(place);
        throw error;
      });
      if (this.#watches.get(place) !== watch) return undefined;
      if (reply.error !== 0) {
        // It was deleted since it was listed.
        this.stop(place);
        if (watch.isHolder && !place.isRanked) {
          this.#parts.hold(place);
          return undefined;
        }
        call.throwIfOver();
        continue;
      }
      if (!watch.isHolder) return undefined;
      const { data, stat } = readDataAndStat(reply.body);
      const ref = { resource: place.resource, token: stat.czxid };
      watch.notice = { kind: "wanted", session: watch.session, ref };
      this.#later(place, () => this.#notifyHolder(watch));
      return shownNode(data).record.holderId;
    }
  }

  /** The place does not wait any more. */
  stop(place: Place): void {
    const watch = this.#watches.get(place);
    this.#watches.delete(place);
    if (watch !== undefined && this.#watchers.get(watch.path) === place)
      this.#watchers.delete(watch.path);
    this.#timers.get(place)?.cancel();
    this.#timers.delete(place);
  }

  /** Records in the node of a place since when it holds the resource, unless it is left soon. */
  stampLater(place: Place): void {
    this.#later(place, () => this.#run((call) => place.stamp(call)));
  }

  /** The server reports a change of a watched node. */
  changed({ path, isDeletion }: WatchEvent): void {
    const place = this.#watchers.get(path);
    const watch = place && this.#watches.get(place);
    if (place === undefined || watch === undefined) return;
    this.stop(place);
    if (isDeletion && watch.isHolder && !place.isRanked) this.#parts.handedOff(place);
    else void this.#advance(place);
  }

  /** The connection was lost. */
  lost(): void {
    const { clock, link } = this.#parts;
    for (const place of [...this.#watches.keys()]) this.stop(place);
    this.#resumption?.cancel();
    if (!link.isOver && this.#waiting().length > 0)
      this.#resumption = clock.setTimer(() => void this.resume(), RESUME_MS);
  }

  /** Watches again what is not watched, and repeats notices that failed. Never rejects. */
  async resume(): Promise<void> {
    for (const [place, watch] of this.#watches)
      if (!this.#timers.has(place)) void this.#notifyHolder(watch);
    await Promise.all(this.#waiting().map((place) => this.#advance(place)));
  }

  async #advance(place: Place): Promise<void> {
    await this.#run((call) =>
      place.inTurn(async () => {
        if (place.isHeld || place.hasLeft || this.#watches.has(place)) return;
        await this.start(call, place, await this.#parts.locate(call, place));
        if (place.isHeld && !place.hasLeft) this.#parts.handedOff(place);
      }),
    );
  }

  #waiting(): Place[] {
    return [...this.#parts.places.values()].filter(({ isHeld, hasLeft }) => !isHeld && !hasLeft);
  }

  async #notifyHolder(watch: Watch): Promise<void> {
    const { notice } = watch;
    if (notice === undefined) return;
    const node = this.#parts.names.noticesNode(watch.session);
    await this.#run(async (call) => {
      for (let tries = 0; tries < NOTICE_TRIES; tries += 1) {
        const append = await readAppend(call, node, notice);
        const isDone = typeof append === "string";
        const reply = isDone ? undefined : await call.ask(append, ERROR.badVersion, ERROR.noNode);
        if (reply?.error === ERROR.badVersion) continue;
        delete watch.notice;
        return;
      }
    });
  }

  #later(place: Place, act: () => Promise<void>): void {
    this.#timers.get(place)?.cancel();
    const timer = this.#parts.clock.setTimer(() => {
      this.#timers.delete(place);
      void act();
    }, PATIENCE_MS);
    this.#timers.set(place, timer);
  }

  /** Runs requests that no caller waits for. If they fail, the next renewal repeats them. */
  async #run(work: (call: Call) => Promise<unknown>): Promise<void> {
    const { clock, link } = this.#parts;
    await within(clock, link, link.timeoutMs / 3, work).catch(() => undefined);
  }
}
