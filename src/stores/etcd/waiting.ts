// Waiting until it is worthwhile to ask for a grant. A read says who holds and who waits before us; from then on watches
// tell every change, and only the one whose turn it is asks: a hundred waiters cause no herd of requests.
//
// The watches begin "now", not at the revision of the read: etcd serves those that begin in the past only every 100 ms. What
// was written between the read and their beginning, if anything was, is found by a second read.

import type { Clock, Timer } from "../../async/clock.ts";
import type { KeyValue } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import type { Names } from "../../clients/etcd/names.ts";
import { txn, type WatchEvent } from "../../clients/etcd/rpc.ts";
import type { Watches } from "../../clients/etcd/watches.ts";
import { readRecord } from "../../core/record.ts";
import { type AttemptRequest, HEAD_START_MS } from "../contract.ts";
import type { Attempts, FirstInLine } from "./attempts.ts";
import { isOwn } from "./grants.ts";

export interface WaitParts {
  readonly members: Members;
  readonly names: Names;
  readonly attempts: Attempts;
  readonly watches: Watches;
  readonly clock: Clock;
}

type WaitRequest = AttemptRequest & { readonly signal: AbortSignal };

/** Watches are mended when they break; looked this often all the same. */
const LOOK_MAX_MS = 30_000;
type Part = "holder" | "queue";

/** While a watch cannot be had. */
const UNWATCHED_LOOK_MS = 1_000;

/** What is known about the resource at a revision. */
interface Sight {
  readonly revision: bigint;
  isHeld: boolean;
  /** By this very attempt: a copy of its request came late, and nobody has been told yet. */
  isOurs: boolean;
  /** Those who wait before us, by their keys, the one who waits longest first. */
  readonly ahead: Map<string, FirstInLine>;
  /** Since when we wait ourselves, where we do. */
  readonly ours: bigint | undefined;
}

/** Resolves also when the cluster cannot be asked: then the grant will fail too, and its caller knows when to go on. */
export function untilFree(parts: WaitParts, request: WaitRequest): Promise<void> {
  return new Wait(parts, request).run();
}

class Wait {
  readonly #parts: WaitParts;
  readonly #request: WaitRequest;
  readonly #closers: (() => void)[] = [];
  /** Watches that have begun, and the revision at which the last of them did. */
  #begun = 0;
  #begunAt = 0n;
  #sight: Sight | undefined;
  /** Told by a watch while a look was under way. */
  #early: { readonly part: Part; readonly event: WatchEvent }[] = [];
  #freeSince: number | undefined;
  #isLooking = false;
  #isDue = false;
  #isOver = false;
  #timer: Timer | undefined;
  #resolve: () => void = () => undefined;
  #reject: (reason: unknown) => void = () => undefined;

  constructor(parts: WaitParts, request: WaitRequest) {
    this.#parts = parts;
    this.#request = request;
  }

  run(): Promise<void> {
    const { signal } = this.#request;
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      signal.addEventListener("abort", this.#stop, { once: true });
      if (signal.aborted) this.#stop();
      else this.#look();
    });
  }

  readonly #stop = (): void => this.#finish(() => this.#reject(this.#request.signal.reason));

  #finish(settle: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#request.signal.removeEventListener("abort", this.#stop);
    this.#unwatch();
    settle();
  }

  #look(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    this.#timer?.cancel();
    look(this.#parts, this.#request).then(
      (sight) => {
        this.#isLooking = false;
        if (!this.#isOver) this.#seen(sight);
      },
      () => this.#finish(this.#resolve),
    );
  }

  #seen(sight: Sight): void {
    this.#sight = sight;
    if (sight.isHeld) this.#freeSince = undefined;
    else this.#freeSince ??= this.#parts.clock.now();
    for (const { part, event } of this.#early.splice(0)) this.#apply(part, event);
    this.#judge();
    if (!this.#isOver && this.#closers.length === 0) this.#watch();
  }

  #watch(): void {
    const { names, watches } = this.#parts;
    const { resource } = this.#request;
    this.#begun = 0;
    this.#begunAt = 0n;
    for (const part of ["holder", "queue"] as const) {
      const target = part === "holder" ? { key: names.holder(resource) } : names.queue(resource);
      const close = watches.open(target, undefined, {
        onBegin: (revision) => this.#began(revision),
        onEvents: (events) => this.#heard(part, events),
        onLost: () => {
          this.#unwatch();
          this.#look();
        },
      });
      this.#closers.push(close);
    }
  }

  #unwatch(): void {
    this.#begun = 0;
    for (const close of this.#closers.splice(0)) close();
  }

  #began(revision: bigint): void {
    this.#begun += 1;
    if (revision > this.#begunAt) this.#begunAt = revision;
    if (this.#begun < this.#closers.length) return;
    if (this.#sight !== undefined && this.#sight.revision < this.#begunAt) this.#look();
    else this.#judge();
  }

  #heard(part: Part, events: readonly WatchEvent[]): void {
    for (const event of events) {
      if (this.#isLooking) this.#early.push({ part, event });
      else this.#apply(part, event);
    }
    // The two watches tell of one change one after the other: judged is when both have.
    if (this.#isDue) return;
    this.#isDue = true;
    this.#parts.clock.soon(() => {
      this.#isDue = false;
      if (!this.#isLooking) this.#judge();
    });
  }

  #apply(part: Part, { isDelete, kv }: WatchEvent): void {
    const sight = this.#sight;
    if (sight === undefined || kv.modRevision <= sight.revision) return;
    if (part === "queue") {
      const name = nameOf(kv.key);
      if (isDelete) sight.ahead.delete(name);
      else if (sight.ahead.has(name)) sight.ahead.set(name, kv);
      return;
    }
    sight.isHeld = !isDelete;
    sight.isOurs = !isDelete && isHolder(this.#request, kv);
    this.#freeSince = isDelete ? this.#parts.clock.now() : undefined;
  }

  #judge(): void {
    const sight = this.#sight;
    if (sight === undefined || this.#isOver) return;
    const { clock } = this.#parts;
    this.#timer?.cancel();
    if (sight.isOurs || (!sight.isHeld && sight.ahead.size === 0)) {
      this.#go(sight, undefined);
      return;
    }
    const isWatched = this.#begun > 0 && this.#begun === this.#closers.length;
    const lookMs = isWatched ? LOOK_MAX_MS : UNWATCHED_LOOK_MS;
    const headStartMs =
      this.#freeSince === undefined
        ? Number.POSITIVE_INFINITY
        : this.#freeSince + HEAD_START_MS - clock.now();
    if (headStartMs <= 0) {
      const [first] = sight.ahead.values();
      this.#go(sight, first);
      return;
    }
    const next = headStartMs < lookMs ? (): void => this.#judge() : (): void => this.#look();
    // Somebody is waiting, so the process has something to do.
    this.#timer = clock.setTimer(next, Math.min(headStartMs, lookMs), { keepAlive: true });
  }

  /** Now is the time to ask. */
  #go({ ours }: Sight, overtakes: FirstInLine | undefined): void {
    const { sessionId, attempt } = this.#request;
    const state = this.#parts.attempts.find(sessionId, attempt);
    if (state !== undefined && ours !== undefined) Object.assign(state, { since: ours, overtakes });
    this.#finish(this.#resolve);
  }
}

async function look(parts: WaitParts, request: WaitRequest): Promise<Sight> {
  const { members, names, attempts } = parts;
  const { resource, attempt, sessionId, limitMs } = request;
  const get = [
    { get: { key: names.holder(resource) } },
    { get: { ...names.queue(resource), keysOnly: true } },
  ];
  const question = { when: [], yes: get, no: [] };
  const { header, answers } = await members.call(txn, question, { limitMs });
  const own = names.waiter(resource, attempt);
  const waiters = answers[1]?.kvs ?? [];
  const ours =
    waiters.find(({ key }) => key.equals(own))?.createRevision ??
    attempts.find(sessionId, attempt)?.since;
  const ahead = waiters
    .filter(
      ({ key, createRevision }) =>
        !key.equals(own) && (ours === undefined || createRevision < ours),
    )
    .sort((a, b) => Number(a.createRevision - b.createRevision));
  const holder = answers[0]?.kvs[0];
  const isOurs = holder !== undefined && isHolder(request, holder);
  return {
    ...{ revision: header.revision, isHeld: holder !== undefined, isOurs },
    ...{ ahead: new Map(ahead.map((waiter) => [nameOf(waiter.key), waiter])), ours },
  };
}

function isHolder(request: AttemptRequest, { value }: KeyValue): boolean {
  return isOwn(request, readRecord(value.toString()));
}

function nameOf(key: Buffer): string {
  return key.toString("latin1");
}
