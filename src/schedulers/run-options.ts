// Shared by the adapters for schedulers: the options of a run, and the report of a skipped run.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import { ONCE_OPTIONS, type OnceOptions, type Skipped } from "../once/once.ts";
import { warn } from "../runtime/system.ts";

/** A scheduled run that did not take place on this machine. */
export type SkippedFire = Skipped & { readonly key: string };

/** The options of once() without the scheduled time, which the scheduler provides. */
export interface FireOptions extends Omit<OnceOptions, "atMs"> {
  /**
   * Called with the reason for every run that did not take place on this machine. If it throws or
   * rejects, Tenure emits a process warning and the scheduler continues. @default none
   */
  readonly onSkip?: ((skipped: SkippedFire) => unknown) | undefined;
}

const { atMs: _, ...ONCE_OPTIONS_WITHOUT_TIME } = ONCE_OPTIONS;
export const FIRE_OPTIONS: OptionNames<FireOptions> = {
  ...ONCE_OPTIONS_WITHOUT_TIME,
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

/** Never throws or rejects: most schedulers would end the process on an error of `onSkip`. */
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
