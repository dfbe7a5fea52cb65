// What the adapters for schedulers have in common: the options of a run, and the report of a run that was skipped.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import { ONCE_OPTIONS, type OnceOptions, type Skipped } from "../once/once.ts";
import { warn } from "../runtime/system.ts";

export type SkippedFire = Skipped & { readonly key: string };

/** Those of once() without the fire itself, which the scheduler names. */
export interface FireOptions extends Omit<OnceOptions, "atMs"> {
  /**
   * Called for every fire that was not run here, with the reason. If it fails, that becomes a warning of the process, and
   * the scheduler goes on. @default nobody
   */
  readonly onSkip?: ((skipped: SkippedFire) => unknown) | undefined;
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

/** Never throws or rejects: an error of `onSkip` is no reason to stop a scheduler, and most would end the process. */
export async function reportSkip(
  onSkip: FireOptions["onSkip"],
  skipped: SkippedFire,
): Promise<void> {
  try {
    await onSkip?.(skipped);
  } catch (error) {
    warn(`onSkip for "${skipped.key}" failed.`, error);
  }
}
