// Finds parts of a secret in every text that a program could show or log for an error or an object.
import { inspect } from "node:util";
import { toFailure } from "../../../src/cli/errors.ts";

/** A part of a secret of at least this length counts as a leak. */
const PART_LENGTH = 4;
/** The same for the percent-encoded form, in which one byte takes three characters. */
const ENCODED_PART_LENGTH = 12;

/** Every text that a log, a debugger, a serializer or our CLI makes of the error and its causes. */
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
 * The parts of the secret that occur in the text. `control` is the text of the same run with
 * another secret: a part that occurs there too, such as a word of the message, does not come from
 * the secret.
 */
export function partsShown(text: string, secret: string, control = ""): string[] {
  const parts = splitIntoParts(secret, PART_LENGTH);
  const encoded = encodeURIComponent(secret);
  const all =
    encoded === secret ? parts : [...parts, ...splitIntoParts(encoded, ENCODED_PART_LENGTH)];
  return all.filter((part) => text.includes(part) && !control.includes(part));
}

function splitIntoParts(text: string, length: number): string[] {
  const count = Math.max(0, text.length - length + 1);
  return Array.from({ length: count }, (_, at) => text.slice(at, at + length));
}

/**
 * Another secret of the same structure: letters and digits are replaced, all other characters kept.
 */
export function controlOf(secret: string): string {
  const turned = (character: string, first: string, last: string): string => {
    const from = first.charCodeAt(0);
    const count = last.charCodeAt(0) - from + 1;
    return String.fromCharCode(from + ((character.charCodeAt(0) - from + 3) % count));
  };
  return [...secret]
    .map((character) => {
      if (/[0-9]/.test(character)) return turned(character, "0", "9");
      // Hexadecimal letters stay hexadecimal, so that a percent-encoded byte remains valid.
      if (/[a-f]/.test(character)) return turned(character, "a", "f");
      if (/[g-z]/.test(character)) return turned(character, "g", "z");
      if (/[A-F]/.test(character)) return turned(character, "A", "F");
      if (/[G-Z]/.test(character)) return turned(character, "G", "Z");
      return /[^ -~]/.test(character) ? (character === "Ж" ? "Щ" : "Ж") : character;
    })
    .join("");
}
