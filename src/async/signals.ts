// Abort signals that follow other signals. We do not use AbortSignal.any(): on Node 20 it leaves an
// entry on every signal it followed, and some of those live as long as the process. A followed
// signal gets one listener for all followers, because Node warns about a leak when a signal has
// many listeners.

import { InvalidArgumentError } from "../core/errors.ts";

/** Checks the `signal` option of a caller. */
export function checkSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  const { aborted, throwIfAborted } = (signal ?? {}) as Partial<AbortSignal>;
  if (typeof aborted === "boolean" && typeof throwIfAborted === "function")
    return signal as AbortSignal;
  const what = signal instanceof AbortController ? "an AbortController" : String(signal);
  throw new InvalidArgumentError(
    `\`signal\` must be an AbortSignal, such as \`controller.signal\` of an AbortController, got ${what}.`,
  );
}

/** A signal that follows other signals until unlink() is called. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Stops following. */
  unlink(): void;
}

/** The followers of one signal, which share one listener. */
interface Followers {
  readonly members: Set<(reason: unknown) => void>;
  detach(): void;
}

const followersBySignal = new WeakMap<AbortSignal, Followers>();

/** A signal that aborts as soon as one of the given signals does, with the same reason. */
export function linkSignals(...followed: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const follow = (reason: unknown): void => controller.abort(reason);
  const unlinks = followed.map((signal) =>
    signal === undefined ? undefined : followSignal(signal, follow),
  );
  return {
    signal: controller.signal,
    unlink: () => {
      for (const unlink of unlinks) unlink?.();
    },
  };
}

function followSignal(
  signal: AbortSignal,
  follow: (reason: unknown) => void,
): (() => void) | undefined {
  if (signal.aborted) {
    follow(signal.reason);
    return undefined;
  }
  const group = followersBySignal.get(signal) ?? attach(signal);
  group.members.add(follow);
  return () => {
    group.members.delete(follow);
    if (group.members.size === 0) group.detach();
  };
}

function attach(signal: AbortSignal): Followers {
  const members: Followers["members"] = new Set();
  const notify = (): void => {
    group.detach();
    for (const follow of [...members]) follow(signal.reason);
  };
  const group: Followers = {
    members,
    detach: () => {
      signal.removeEventListener("abort", notify);
      if (followersBySignal.get(signal) === group) followersBySignal.delete(signal);
    },
  };
  followersBySignal.set(signal, group);
  signal.addEventListener("abort", notify, { once: true });
  return group;
}

/** Settles like the promise, or rejects with the signal's reason if the signal aborts first. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.finally(() => signal.removeEventListener("abort", stop)).then(resolve, reject);
  });
}

/**
 * Yields the values of the source until the signal aborts. It then ends at once, even if the source
 * is still waiting.
 */
export async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  const iterator = source[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await orAborted(iterator.next(), signal);
      if (done === true) return;
      yield value;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    // Not awaited: a generator that is suspended in an await cannot end before that await.
    iterator.return?.().catch(() => undefined);
  }
}
