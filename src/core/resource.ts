// Checks resource names: any text of 1 to 512 bytes in UTF-8. The public functions check a name
// once, so that every store and guard can rely on it.

import { InvalidArgumentError } from "./errors.ts";
import { hasLoneSurrogate, utf8Length } from "./text.ts";

export const RESOURCE_BYTES_MAX = 512;

export function checkResource(name: unknown): string {
  if (typeof name !== "string") {
    throw new InvalidArgumentError(`Expected a resource name (a string), got ${typeof name}.`);
  }
  if (name === "") {
    throw new InvalidArgumentError(
      'Expected a resource name, got an empty string. Name what is protected, e.g. "settlement".',
    );
  }
  return checkText(name, "resource name");
}

/** A prefix may be empty, which matches every resource. */
export function checkPrefix(prefix: unknown): string {
  if (typeof prefix !== "string") {
    throw new InvalidArgumentError(`Expected a prefix (a string), got ${typeof prefix}.`);
  }
  return checkText(prefix, "prefix");
}

function checkText(text: string, what: string): string {
  if (text.includes("\0")) {
    throw new InvalidArgumentError(`The ${what} contains a NUL character. Remove it.`);
  }
  if (hasLoneSurrogate(text)) {
    throw new InvalidArgumentError(
      `The ${what} contains half of a surrogate pair, which UTF-8 cannot express. Check where it was cut.`,
    );
  }
  const bytes = utf8Length(text);
  if (bytes > RESOURCE_BYTES_MAX) {
    throw new InvalidArgumentError(
      `The ${what} has ${bytes} bytes; at most ${RESOURCE_BYTES_MAX} are allowed. Shorten or hash it.`,
    );
  }
  return text;
}
