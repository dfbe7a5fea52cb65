// What the adapters for schedulers have in common: the options of a run, and where one that did not happen is told.

import { InvalidArgumentError } from "../core/errors.ts";
import type { OnceOptions, Skipped } from "../once/once.ts";

/** Those of once() without the fire itself, which the scheduler names. */
export interface FireOptions extends Omit<OnceOptions, "atMs"> {
  /** Told of every fire that was not run here, and why. @default nobody */
  readonly onSkip?: ((skipped: Skipped & { readonly key: string }) => void) | undefined;
}

export function checkOnSkip(options: FireOptions): void {
  const { onSkip } = options;
  if (onSkip === undefined || typeof onSkip === "function") return;
  throw new InvalidArgumentError("`onSkip` must be a function.");
}
