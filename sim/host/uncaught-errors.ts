// Captures uncaught exceptions and unhandled rejections, which would otherwise end the process.

const EVENTS = ["uncaughtException", "unhandledRejection"] as const;

/** Passes all such errors to `onError` only, until the returned function is called. */
export function captureUncaughtErrors(onError: (error: unknown) => void): () => void {
  const restore = EVENTS.map((event) => {
    const others = process.rawListeners(event) as ((...all: unknown[]) => void)[];
    for (const listener of others) process.off(event, listener);
    process.on(event, onError);
    return () => {
      process.off(event, onError);
      for (const listener of others) process.on(event, listener);
    };
  });
  return () => {
    for (const each of restore) each();
  };
}
