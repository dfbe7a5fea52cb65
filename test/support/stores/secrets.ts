// Finds parts of a secret in everything that a program could show or log of an error or an object.
import { inspect } from "node:util";
import { toFailure } from "../../../src/cli/failures.ts";

/** A part of a secret of this length counts as shown. */
const PART_LENGTH = 4;
/** The same for the percent-encoded form, of which three characters are one byte. */
const ENCODED_PART_LENGTH = 12;

/** Every text that a log, a debugger, a serializer or our own program makes of the error and of its causes. */
export function textsOf(error: unknown): string {
  const texts: string[] = [];
  for (let each: unknown = error, depth = 0; each !== undefined && depth < 10; depth += 1) {
    const { message, stack, cause } = (each ?? {}) as Partial<Error>;
    const { code, ...failure } = toFailure(each);
    texts.push(String(each), message ?? "", stack ?? "", shown(each), JSON.stringify(each) ?? "");
    texts.push(String(code), JSON.stringify(failure), failure.message);
    each = cause;
  }
  return texts.join("\n");
}

/** An object as a debugger shows it, with hidden properties and at any depth. */
export function shown(value: unknown): string {
  return inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true });
}

/**
 * The parts of the secret in the text. `control` is the text of the same run with another secret: what is there too, such
 * as a word of the message, does not come from the secret.
 */
export function partsShown(text: string, secret: string, control = ""): string[] {
  const parts = partsOf(secret, PART_LENGTH);
  const encoded = encodeURIComponent(secret);
  const all = encoded === secret ? parts : [...parts, ...partsOf(encoded, ENCODED_PART_LENGTH)];
  return all.filter((part) => text.includes(part) && !control.includes(part));
}

function partsOf(text: string, length: number): string[] {
  const count = Math.max(0, text.length - length + 1);
  return Array.from({ length: count }, (_, at) => text.slice(at, at + length));
}

/** Another secret with the same structure: every letter and digit is another one, all else is the same. */
export function controlOf(secret: string): string {
  const turned = (character: string, first: string, last: string): string => {
    const from = first.charCodeAt(0);
    const count = last.charCodeAt(0) - from + 1;
    return String.fromCharCode(from + ((character.charCodeAt(0) - from + 3) % count));
  };
  return [...secret]
    .map((character) => {
      if (/[0-9]/.test(character)) return turned(character, "0", "9");
      // Letters of hexadecimal digits stay such, so that a percent-code stays one.
      if (/[a-f]/.test(character)) return turned(character, "a", "f");
      if (/[g-z]/.test(character)) return turned(character, "g", "z");
      if (/[A-F]/.test(character)) return turned(character, "A", "F");
      if (/[G-Z]/.test(character)) return turned(character, "G", "Z");
      return /[^ -~]/.test(character) ? (character === "Ж" ? "Щ" : "Ж") : character;
    })
    .join("");
}
