// Signals to this process, and its end: the only place of the library that touches either.

import { constants } from "node:os";

/** The number of a signal on this platform, or undefined for a name that it does not have. */
export function signalNumber(signal: string): number | undefined {
  return (constants.signals as Readonly<Record<string, number>>)[signal];
}

/** Returns the function that takes the handler off again. */
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
