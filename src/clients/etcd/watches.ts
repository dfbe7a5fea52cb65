// All watches of a store on one stream. If the stream breaks, each watch is created again at
// another member, from the last revision that it saw, so nothing is missed. Its owner is notified
// only if that revision is no longer kept. It does not start from the following revision, because a
// compaction of exactly that one would hide a deletion (seen on 3.4).

import type { Clock, Timer } from "../../async/clock.ts";
import type { EtcdClient, OpenStream } from "./client.ts";
import { judge } from "./errors.ts";
import type { Credential } from "./logins.ts";
import { watch as rpc, type WatchAnswer, type WatchEvent } from "./rpc.ts";

export interface WatchListener {
  /**
   * Called once, if no first revision was given: every event after this revision will be reported.
   */
  onBegin?(revision: bigint): void;
  onEvents(events: readonly WatchEvent[]): void;
  /** The watch has ended, and events may have been missed. */
  onLost(): void;
}

export interface WatchTarget {
  readonly key: Uint8Array;
  readonly end?: Uint8Array | undefined;
  /** Without events for keys that are written. */
  readonly deletionsOnly?: boolean | undefined;
}

interface Watch {
  readonly target: WatchTarget;
  readonly listener: WatchListener;
  /** The first revision that was not seen yet; undefined until the watch has begun. */
  next: bigint | undefined;
  /** A request for it was sent, so events may have been missed since. */
  isSent: boolean;
}

const RETRY_MIN_MS = 20;
const RETRY_MAX_MS = 1_000;

export class Watches {
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  readonly #watches = new Map<bigint, Watch>();
  #open: OpenStream | undefined;
  #lastId = 0n;
  #retryMs = RETRY_MIN_MS;
  #retryTimer: Timer | undefined;
  #isClosed = false;

  constructor(client: EtcdClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Reports events from this revision on, or from now on. Returns the function that ends it. */
  open(target: WatchTarget, from: bigint | undefined, listener: WatchListener): () => void {
    this.#lastId += 1n;
    const id = this.#lastId;
    const watch = { target, listener, next: from, isSent: false };
    this.#watches.set(id, watch);
    if (this.#open !== undefined) this.#create(id, watch);
    else if (this.#retryTimer === undefined) this.#connect();
    return () => {
      if (!this.#watches.delete(id)) return;
      this.#open?.stream.send(rpc.encode({ cancel: id }));
      this.#stopWhenIdle();
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#watches.clear();
    this.#stopWhenIdle();
  }

  #connect(): void {
    this.#retryTimer = undefined;
    if (this.#isClosed || this.#watches.size === 0) return;
    // A stream that is opened during a login would be rejected.
    if (this.#retryAfterLogin(undefined)) return;
    try {
      const open = this.#client.stream(rpc.path, {
        onMessage: (message) => {
          if (this.#open === open) this.#received(rpc.decode(message));
        },
        onEnd: (reason) => {
          if (this.#open === open) this.#broken(reason);
        },
      });
      this.#open = open;
      for (const [id, watch] of this.#watches) this.#create(id, watch);
    } catch {
      this.#retryLater();
    }
  }

  #create(id: bigint, watch: Watch): void {
    const { target, next = 0n, isSent } = watch;
    watch.isSent = true;
    const from = isSent && next > 0n ? next - 1n : next;
    this.#open?.stream.send(rpc.encode({ create: { ...target, id, from } }));
  }

  #received(answer: WatchAnswer): void {
    const watch = this.#watches.get(answer.id);
    const isCompacted = answer.compactRevision > 0n;
    if (answer.canceled && !isCompacted) {
      // The answer does not always name the watch. A watch that we ended needs no answer.
      if (answer.created || watch !== undefined) this.#rejected();
      return;
    }
    this.#retryMs = RETRY_MIN_MS;
    if (watch === undefined) return;
    if (isCompacted) {
      this.#watches.delete(answer.id);
      watch.listener.onLost();
      this.#stopWhenIdle();
      return;
    }
    if (watch.next === undefined) {
      watch.next = answer.header.revision + 1n;
      watch.listener.onBegin?.(answer.header.revision);
    }
    const { next } = watch;
    const events = answer.events.filter(({ kv }) => kv.modRevision >= next);
    const newest = events.at(-1)?.kv.modRevision;
    if (newest === undefined) return;
    watch.next = newest + 1n;
    watch.listener.onEvents(events);
  }

  #broken(reason: unknown): void {
    const open = this.#open;
    this.#open = undefined;
    const { kind } = judge(reason);
    if (open !== undefined && kind === "passing") this.#client.leave(open.member);
    if (kind !== "login" || !this.#retryAfterLogin(open?.used)) this.#retryLater();
  }

  /** The login of the stream may have expired: all watches are created again, with a new login. */
  #rejected(): void {
    const open = this.#open;
    open?.stream.cancel();
    this.#open = undefined;
    this.#retryMs = RETRY_MAX_MS;
    if (!this.#retryAfterLogin(open?.used)) this.#retryLater();
  }

  /** False if there is no login to wait for. */
  #retryAfterLogin(rejected: Credential | undefined): boolean {
    const login = this.#client.loggedIn(RETRY_MAX_MS, rejected);
    const retry = (): void => this.#retryLater();
    login?.then(retry, retry);
    return login !== undefined;
  }

  #retryLater(): void {
    if (this.#isClosed || this.#retryTimer !== undefined) return;
    this.#retryTimer = this.#clock.setTimer(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MAX_MS);
  }

  /** Without watches, no stream is open and no timer is set. */
  #stopWhenIdle(): void {
    if (this.#watches.size > 0) return;
    this.#retryTimer?.cancel();
    this.#retryTimer = undefined;
    this.#open?.stream.cancel();
    this.#open = undefined;
  }
}
