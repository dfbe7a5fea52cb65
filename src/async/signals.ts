// Abort signals that follow others. AbortSignal.any would do, but on Node 20 it leaves an entry behind on every signal it
// followed, and ours follow some that live as long as the process. However many follow one signal, it gets one listener,
// so that a hundred waiters do not look like a leak.

import { InvalidArgumentError } from "../core/errors.ts";

/** A signal that a caller passed as an option. */
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

/** A signal that follows others until it is let go. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Lets go of the signals it follows. */
  unlink(): void;
}

/** All who follow one signal, behind its one listener. */
interface Crowd {
  readonly members: Set<(reason: unknown) => void>;
  disperse(): void;
}

const followers = new WeakMap<AbortSignal, Crowd>();

/** Aborts with the first of the given signals. */
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
  const crowd = followers.get(signal) ?? gather(signal);
  crowd.members.add(follow);
  return () => {
    crowd.members.delete(follow);
    if (crowd.members.size === 0) crowd.disperse();
  };
}

function gather(signal: AbortSignal): Crowd {
  const members: Crowd["members"] = new Set();
  const tell = (): void => {
    crowd.disperse();
    for (const follow of [...members]) follow(signal.reason);
  };
  const crowd: Crowd = {
    members,
    disperse: () => {
      signal.removeEventListener("abort", tell);
      if (followers.get(signal) === crowd) followers.delete(signal);
    },
  };
  followers.set(signal, crowd);
  signal.addEventListener("abort", tell, { once: true });
  return crowd;
}

/** The promise's own outcome, or the signal's reason if that comes first. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.finally(() => signal.removeEventListener("abort", stop)).then(resolve, reject);
  });
}

/** What the source tells, until the signal aborts: then at once, whatever answer the source still waits for. */
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
    // Not waited for: a generator that waits itself ends only behind that.
    iterator.return?.().catch(() => undefined);
  }
}
