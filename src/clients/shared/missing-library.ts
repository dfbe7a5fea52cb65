// The error for a client library that is not there. Libraries are optional and loaded when a store is opened, by name, so a
// bundler does not see them.

import { StoreUnusableError } from "../../core/errors.ts";

export interface Missing {
  /** What it connects to, as its users call it. */
  readonly backend: string;
  readonly tried: readonly string[];
  /** A sentence that says how to get one. */
  readonly install: string;
  /** How to do without: a store that is given a client. */
  readonly instead?: string | undefined;
  readonly cause: unknown;
}

export function missingLibrary({
  backend,
  tried,
  install,
  instead,
  cause,
}: Missing): StoreUnusableError {
  const orElse = instead === undefined ? "" : `, or pass your own: ${instead}`;
  return new StoreUnusableError(
    `No ${backend} library could be loaded (tried ${tried.join(", ")}). ${install} ` +
      `A bundler does not include it: install it where the bundle runs${orElse}.`,
    { cause },
  );
}
