// The header `Fencing-Token`, in one strict form: `resource="settlement", token=4720`, or
// `signed="tenure1...."`. It looks like a dictionary of structured fields (RFC 9651), with two
// differences: tokens have up to 39 digits, more than the integers of the RFC, so this grammar
// applies; and a name that is not printable ASCII is a display string, %"caf%c3%a9".

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkResource } from "../../core/resource.ts";
import { formatToken, parseToken } from "../../core/token.ts";
import type { TokenSource } from "../guard.ts";

export const HEADER = "Fencing-Token";
const HEADER_BYTES_MAX = 1_024;

export type Offered =
  | { readonly kind: "facts"; readonly resource: string; readonly token: bigint }
  | { readonly kind: "signed"; readonly text: string };

const FACTS = /^resource=(%?"(?:[^"\\]|\\["\\])*") *, *token=([0-9]{1,39})$/;
const SIGNED = /^signed="([\w.-]{1,1000})"$/;

export function formatHeader({ resource, token }: TokenSource): string {
  const text = `resource=${quote(resource)}, token=${formatToken(token)}`;
  if (text.length <= HEADER_BYTES_MAX) return text;
  throw new InvalidArgumentError(
    `The header ${HEADER} for this resource would have ${text.length} bytes, and ${HEADER_BYTES_MAX} are allowed. Shorten its name.`,
    { resource },
  );
}

export function formatSigned(text: string): string {
  return `signed="${text}"`;
}

/**
 * Rejects two tokens (HTTP joins two headers with a comma), other parameters, and a header that is
 * too long.
 */
export function parseHeader(text: string): Offered {
  if (text.length > HEADER_BYTES_MAX) {
    throw new InvalidArgumentError(
      `The header ${HEADER} has ${text.length} bytes; at most ${HEADER_BYTES_MAX} are read.`,
    );
  }
  const signed = SIGNED.exec(text)?.[1];
  if (signed !== undefined) return { kind: "signed", text: signed };
  const [, name, digits] = FACTS.exec(text) ?? [];
  if (name === undefined || digits === undefined) {
    throw new InvalidArgumentError(
      `Expected one header ${HEADER}: resource="settlement", token=4720 (or signed="..."), and nothing else in it.`,
    );
  }
  return { kind: "facts", resource: checkResource(unquote(name)), token: parseToken(digits) };
}

function quote(resource: string): string {
  if (/^[ -~]*$/.test(resource)) return `"${resource.replaceAll(/["\\]/g, "\\$&")}"`;
  const encode = (letter: string): string => encodeURIComponent(letter).toLowerCase();
  return `%"${resource.replaceAll(/[^ -~]|[%"\\]/gu, encode)}"`;
}

function unquote(quoted: string): string {
  if (!quoted.startsWith("%")) {
    const inner = quoted.slice(1, -1);
    if (!/^[ -~]*$/.test(inner)) throw badName();
    return inner.replaceAll(/\\(["\\])/g, "$1");
  }
  const inner = quoted.slice(2, -1);
  if (!/^(?:[ -$&-~]|%[0-9a-f]{2})*$/.test(inner) || inner.includes("\\")) throw badName();
  try {
    return decodeURIComponent(inner);
  } catch {
    throw badName();
  }
}

function badName(): InvalidArgumentError {
  return new InvalidArgumentError(
    `The resource in ${HEADER} must be "printable ASCII", or %"percent-coded UTF-8" with small hex digits.`,
  );
}
