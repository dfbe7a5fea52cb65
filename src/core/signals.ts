// Abort signals that follow others. AbortSignal.any would do, but on Node 20 it leaves an entry behind on every signal it
// followed, and ours follow some that live as long as the process.

/** A signal that follows others until it is let go. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Lets go of the signals it follows: some of them live as long as the process. */
  unlink(): void;
}

/** Aborts with the first of the given signals. */
export function linkSignals(...followed: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const unlinks: (() => void)[] = [];
  for (const signal of followed) {
    if (signal === undefined) continue;
    const follow = (): void => controller.abort(signal.reason);
    if (signal.aborted) follow();
    signal.addEventListener("abort", follow, { once: true });
    unlinks.push(() => signal.removeEventListener("abort", follow));
  }
  return {
    signal: controller.signal,
    unlink: () => {
      for (const unlink of unlinks) unlink();
    },
  };
}
