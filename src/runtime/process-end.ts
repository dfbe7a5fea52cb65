// Signal handlers and exit of this process. No other file of the library uses either.

import { constants } from "node:os";

/** The number of a signal on this platform; undefined for an unknown name. */
export function signalNumber(signal: string): number | undefined {
  return (constants.signals as Readonly<Record<string, number>>)[signal];
}

/** Returns a function that removes the handler. */
export function onSignals(
  signals: readonly NodeJS.Signals[],
  handle: (signal: NodeJS.Signals) => void,
): () => void {
  for (const signal of signals) process.on(signal, handle);
  return () => {
    for (const signal of signals) process.off(signal, handle);
  };
}

export function endProcess(code: number): never {
  process.exit(code);
}
