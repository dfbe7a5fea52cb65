// All watches of a store on one stream. When the stream breaks, each is made anew at another member from the last
// revision that it saw, so nothing is missed; only when that revision is no longer kept is its owner told to look. Not
// from the one behind it: a compaction of exactly that one would swallow a deletion without a word (seen on 3.4).

import type { Clock, Timer } from "../../async/clock.ts";
import { judge } from "./errors.ts";
import type { Credential } from "./logins.ts";
import type { EtcdClient, Opened } from "./client.ts";
import { watch as rpc, type WatchAnswer, type WatchEvent } from "./rpc.ts";

export interface WatchListener {
  /** Everything behind this revision will be told. Once, and only where no revision to begin with was given. */
  onBegin?(revision: bigint): void;
  onEvents(events: readonly WatchEvent[]): void;
  /** The watch is over: something may have been missed. */
  onLost(): void;
}

interface Watch {
  readonly key: Uint8Array;
  readonly end: Uint8Array | undefined;
  readonly deletionsOnly: boolean;
  readonly listener: WatchListener;
  /** The first revision that was not seen yet; undefined until the watch has begun. */
  next: bigint | undefined;
}

const RETRY_MIN_MS = 20;
const RETRY_MAX_MS = 1_000;

export class Watches {
  readonly #members: EtcdClient;
  readonly #clock: Clock;
  readonly #watches = new Map<bigint, Watch>();
  #line: Opened | undefined;
  /** Nothing was watched since the last stream was ended on purpose. */
  #isFirst = true;
  #lastId = 0n;
  #retryMs = RETRY_MIN_MS;
  #retryTimer: Timer | undefined;
  #closed = false;

  constructor(members: EtcdClient, clock: Clock) {
    this.#members = members;
    this.#clock = clock;
  }

  /** Everything from this revision on, or from now on. Returns the function that ends it. */
  open(
    target: {
      readonly key: Uint8Array;
      readonly end?: Uint8Array | undefined;
      /** Without events for keys that are written. */
      readonly deletionsOnly?: boolean;
    },
    from: bigint | undefined,
    listener: WatchListener,
  ): () => void {
    this.#lastId += 1n;
    const id = this.#lastId;
    const { key, end, deletionsOnly = false } = target;
    this.#watches.set(id, { key, end, deletionsOnly, listener, next: from });
    if (this.#line !== undefined) this.#create(id, from);
    else if (this.#retryTimer === undefined) this.#connect();
    return () => this.#leave(id);
  }

  close(): void {
    this.#closed = true;
    this.#watches.clear();
    this.#stop();
  }

  #connect(): void {
    this.#retryTimer = undefined;
    if (this.#closed || this.#watches.size === 0 || this.#line !== undefined) return;
    // A stream that is opened during a login would be rejected with the token that it had.
    if (this.#retryAfterLogin(undefined)) return;
    try {
      const line = this.#members.stream(rpc.path, {
        onMessage: (message) => {
          if (this.#line === line) this.#heard(rpc.decode(message));
        },
        onEnd: (reason) => {
          if (this.#line === line) this.#broken(reason);
        },
      });
      this.#line = line;
      const isFirst = this.#isFirst;
      this.#isFirst = false;
      for (const [id, { next }] of this.#watches)
        this.#create(id, isFirst || next === undefined ? next : next - 1n);
    } catch {
      this.#retryLater();
    }
  }

  #create(id: bigint, from: bigint | undefined): void {
    const watch = this.#watches.get(id);
    if (watch === undefined) return;
    const { key, end, deletionsOnly } = watch;
    const create = { id, key, end, from: from ?? 0n, deletionsOnly };
    this.#line?.stream.send(rpc.encode({ create }));
  }

  #heard(answer: WatchAnswer): void {
    const watch = this.#watches.get(answer.id);
    const isCompacted = answer.compactRevision > 0n;
    if (answer.canceled && !isCompacted) {
      // Whose watch it was is not always said. What we ended ourselves needs no answer.
      if (answer.created || watch !== undefined) this.#refused();
      return;
    }
    this.#retryMs = RETRY_MIN_MS;
    if (watch === undefined) return;
    if (isCompacted) {
      this.#watches.delete(answer.id);
      this.#stopWhenIdle();
      watch.listener.onLost();
      return;
    }
    if (watch.next === undefined) {
      watch.next = answer.header.revision + 1n;
      watch.listener.onBegin?.(answer.header.revision);
    }
    const { next } = watch;
    const news = answer.events.filter(({ kv }) => kv.modRevision >= next);
    const newest = news.at(-1)?.kv.modRevision;
    if (newest === undefined) return;
    watch.next = newest + 1n;
    watch.listener.onEvents(news);
  }

  #broken(reason: unknown): void {
    const line = this.#line;
    this.#line = undefined;
    const { kind } = judge(reason);
    if (line !== undefined && kind === "passing") this.#members.leave(line.member, 0);
    if (kind === "login" && this.#retryAfterLogin(line?.used)) return;
    this.#retryLater();
  }

  /** The login that the stream was opened with may have run out: all are made anew on another one, with a new login. */
  #refused(): void {
    const line = this.#line;
    line?.stream.cancel();
    this.#line = undefined;
    this.#retryMs = RETRY_MAX_MS;
    if (!this.#retryAfterLogin(line?.used)) this.#retryLater();
  }

  /** False if there is no login to wait for. */
  #retryAfterLogin(rejected: Credential | undefined): boolean {
    const login = this.#members.loggedIn(RETRY_MAX_MS, rejected);
    const retry = (): void => this.#retryLater();
    login?.then(retry, retry);
    return login !== undefined;
  }

  #retryLater(): void {
    if (this.#closed || this.#retryTimer !== undefined) return;
    this.#retryTimer = this.#clock.setTimer(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MAX_MS);
  }

  #leave(id: bigint): void {
    if (!this.#watches.delete(id)) return;
    this.#line?.stream.send(rpc.encode({ cancel: id }));
    this.#stopWhenIdle();
  }

  #stopWhenIdle(): void {
    if (this.#watches.size === 0) this.#stop();
  }

  /** Without watches nothing runs and nothing is open. */
  #stop(): void {
    this.#retryTimer?.cancel();
    this.#retryTimer = undefined;
    this.#line?.stream.cancel();
    this.#line = undefined;
    this.#isFirst = true;
  }
}
