// What is thrown or rejected and caught by nobody would end the process. For a while, somebody wants to hear of it instead.

const EVENTS = ["uncaughtException", "unhandledRejection"] as const;

/** Until the function that it returns is called, strays come here and nowhere else. */
export function captureUncaughtErrors(onStray: (error: unknown) => void): () => void {
  const restore = EVENTS.map((event) => {
    const others = process.rawListeners(event) as ((...all: unknown[]) => void)[];
    for (const listener of others) process.off(event, listener);
    process.on(event, onStray);
    return () => {
      process.off(event, onStray);
      for (const listener of others) process.on(event, listener);
    };
  });
  return () => {
    for (const each of restore) each();
  };
}
