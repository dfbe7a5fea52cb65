// Waiting until it is worthwhile to ask for a grant. One read says who holds and who waits before us; from then on the
// watches tell every change, and only the one whose turn it is asks: a hundred waiters cause no herd of requests.

import type { Clock, Timer } from "../../core/clock.ts";
import { type AttemptRequest, HEAD_START_MS } from "../store.ts";
import type { Attempts } from "./attempts.ts";
import type { Members } from "./members.ts";
import type { Names } from "./names.ts";
import { txn, type WatchEvent } from "./rpc.ts";
import type { Watches } from "./watches.ts";

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

/** What is known about the resource at a revision. */
interface Sight {
  readonly revision: bigint;
  isHeld: boolean;
  /** By our clock; when it was found free, that moment counts. */
  freeSince: number;
  /** The keys of those who wait before us. */
  readonly ahead: Set<string>;
  /** Since when we wait ourselves, where we do. */
  readonly ours: bigint | undefined;
}

export async function untilFree(parts: WaitParts, request: WaitRequest): Promise<void> {
  const { signal, sessionId, attempt } = request;
  for (;;) {
    signal.throwIfAborted();
    let sight: Sight;
    try {
      sight = await orAborted(look(parts, request), signal);
    } catch {
      signal.throwIfAborted();
      // Asking for the grant will fail too, and its caller knows when to try again.
      return;
    }
    const end = await watched(parts, request, sight);
    if (end === "look again") continue;
    const state = parts.attempts.find(sessionId, attempt);
    if (state !== undefined && sight.ours !== undefined) {
      state.since = sight.ours;
      state.mayOvertake = end === "overtake";
    }
    return;
  }
}

async function look(parts: WaitParts, request: WaitRequest): Promise<Sight> {
  const { members, names, attempts, clock } = parts;
  const { resource, attempt, sessionId, limitMs } = request;
  const get = [
    { get: { key: names.holder(resource), keysOnly: true } },
    { get: { ...names.queue(resource), keysOnly: true } },
  ];
  const question = { when: [], yes: get, no: [] };
  const { header, answers } = await members.call(txn, question, { limitMs });
  const own = names.waiter(resource, attempt);
  const waiters = answers[1]?.kvs ?? [];
  const ours =
    waiters.find(({ key }) => key.equals(own))?.createRevision ??
    attempts.find(sessionId, attempt)?.since;
  const ahead = waiters.filter(
    ({ key, createRevision }) => !key.equals(own) && (ours === undefined || createRevision < ours),
  );
  return {
    ...{ revision: header.revision, isHeld: answers[0]?.kvs[0] !== undefined },
    ...{ freeSince: clock.now(), ahead: new Set(ahead.map(({ key }) => nameOf(key))), ours },
  };
}

function watched(
  { names, watches, clock }: WaitParts,
  { resource, signal }: WaitRequest,
  sight: Sight,
): Promise<"turn" | "overtake" | "look again"> {
  return new Promise((resolve, reject) => {
    let timer: Timer | undefined;
    let isDue = false;
    let isOver = false;
    const closers: (() => void)[] = [];
    const finish = (settle: () => void): void => {
      if (isOver) return;
      isOver = true;
      timer?.cancel();
      signal.removeEventListener("abort", stop);
      for (const close of closers) close();
      settle();
    };
    const stop = (): void => finish(() => reject(signal.reason));
    const onLost = (): void => finish(() => resolve("look again"));
    const judge = (): void => {
      isDue = false;
      timer?.cancel();
      const waitMs = sight.isHeld ? LOOK_MAX_MS : sight.freeSince + HEAD_START_MS - clock.now();
      if (!sight.isHeld && sight.ahead.size === 0) finish(() => resolve("turn"));
      else if (waitMs <= 0) finish(() => resolve("overtake"));
      // Somebody is waiting, so the process has something to do.
      else timer = clock.setTimer(sight.isHeld ? onLost : judge, waitMs, { keepAlive: true });
    };
    const change = (apply: (event: WatchEvent) => void) => (events: readonly WatchEvent[]) => {
      for (const event of events) apply(event);
      // The two watches tell of one change one after the other: judged is when both have.
      if (!isDue && !isOver) clock.soon(() => !isOver && judge());
      isDue = true;
    };
    const onHolder = change(({ isDelete }) => {
      sight.isHeld = !isDelete;
      if (isDelete) sight.freeSince = clock.now();
    });
    const onQueue = change(({ isDelete, kv }) => {
      if (isDelete) sight.ahead.delete(nameOf(kv.key));
    });
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    judge();
    if (isOver) return;
    const from = sight.revision + 1n;
    const holder = { key: names.holder(resource) };
    closers.push(watches.open(holder, from, { onEvents: onHolder, onLost }));
    if (sight.ahead.size > 0)
      closers.push(watches.open(names.queue(resource), from, { onEvents: onQueue, onLost }));
  });
}

function nameOf(key: Buffer): string {
  return key.toString("latin1");
}

/** The promise's own outcome, or the signal's reason if that comes first. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.finally(() => signal.removeEventListener("abort", stop)).then(resolve, reject);
  });
}
