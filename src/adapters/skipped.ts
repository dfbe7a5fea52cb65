// What the adapters for schedulers have in common: the options of a run, and where one that did not happen is told.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import { ONCE_OPTIONS, type OnceOptions, type Skipped } from "../once/once.ts";

/** Those of once() without the fire itself, which the scheduler names. */
export interface FireOptions extends Omit<OnceOptions, "atMs"> {
  /** Told of every fire that was not run here, and why. @default nobody */
  readonly onSkip?: ((skipped: Skipped & { readonly key: string }) => void) | undefined;
}

const { atMs: _, ...ONCE_OPTIONS_WITHOUT_FIRE } = ONCE_OPTIONS;
export const FIRE_OPTIONS: OptionNames<FireOptions> = {
  ...ONCE_OPTIONS_WITHOUT_FIRE,
  onSkip: true,
};

export function checkFireOptions<Options extends FireOptions>(
  call: string,
  options: Options,
  known: OptionNames<Options>,
): void {
  checkOptionNames(call, options, known);
  const { onSkip } = options;
  if (onSkip === undefined || typeof onSkip === "function") return;
  throw new InvalidArgumentError("`onSkip` must be a function.");
}
