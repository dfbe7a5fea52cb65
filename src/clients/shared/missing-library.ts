// The error for a client library that is not installed. Libraries are optional and are imported by
// a computed name when a store is opened, so bundlers do not include them.

import { StoreUnusableError } from "../../core/errors.ts";

export interface Missing {
  /** The name of the backend for messages. */
  readonly backend: string;
  readonly tried: readonly string[];
  /** A sentence with the command that installs one. */
  readonly install: string;
  /** The call that works without: it passes a client. */
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
