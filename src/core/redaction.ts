// Removes secrets from errors of backends, client libraries and the platform. Stores, guards and
// the CLI pass foreign errors through here before they use a message or attach a cause. Our own
// messages need no redaction: they contain no part of a URL that can hold a secret.

import { isTenureError } from "./errors.ts";

const MASK = "***";

/**
 * Properties of an error that are useful in a log and hold no secret. All others are dropped:
 * ioredis adds the arguments of AUTH, and Node adds the whole URL that it could not parse.
 */
const FACTS = [
  "code",
  "errno",
  "syscall",
  "hostname",
  "address",
  "port",
  "sent",
  "details",
  "severity",
  "detail",
  "hint",
  "schema",
  "table",
  "column",
  "constraint",
  "routine",
];

/** Causes nested deeper than this are dropped. */
const DEPTH_MAX = 8;

/**
 * The text without the credentials in URLs, the arguments that Redis echoes (of AUTH, for example)
 * and private keys.
 */
export function redactedText(text: string): string {
  return (
    text
      // Not in file:// addresses of a stack, where package names begin with "@".
      .replace(/(?<!file):\/\/\S*@/g, `://${MASK}@`)
      .replace(/(with args beginning with:).*/g, `$1 ${MASK}`)
      .replace(/-----BEGIN.*?(?:-----END[^-]*-----|$)/gs, MASK)
  );
}

/**
 * A copy of a foreign error that is safe to show, log and attach as a cause. It keeps the class,
 * message, stack and code.
 */
export function redacted(error: unknown): Error {
  return copyError(error, 0);
}

function copyError(error: unknown, depth: number): Error {
  if (isTenureError(error)) return error;
  if (!isErrorLike(error)) {
    const isObject = typeof error === "object" && error !== null;
    return new Error(isObject ? "an object that is not an error" : redactedText(String(error)));
  }
  const copy = new Error(redactedText(error.message));
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error) as object);
  const hide = (name: string, value: unknown): void => {
    Object.defineProperty(copy, name, { value, configurable: true, writable: true });
  };
  if (Object.hasOwn(error, "name")) hide("name", redactedText(String(error.name)));
  hide("stack", redactedText(String(error.stack ?? error.message)));
  for (const name of FACTS) {
    const fact = (error as unknown as Record<string, unknown>)[name];
    if (typeof fact === "string") Object.assign(copy, { [name]: redactedText(fact) });
    else if (typeof fact === "number" || typeof fact === "boolean")
      Object.assign(copy, { [name]: fact });
  }
  if (depth === DEPTH_MAX) return copy;
  if (error.cause !== undefined) hide("cause", copyError(error.cause, depth + 1));
  const { errors } = error as { errors?: unknown };
  if (Array.isArray(errors)) {
    const copies = errors.map((each: unknown) => copyError(each, depth + 1));
    hide("errors", copies);
  }
  return copy;
}

/** Unlike `instanceof Error`, this is also true for an error of another realm. */
function isErrorLike(error: unknown): error is Error {
  return (
    typeof error === "object" &&
    error !== null &&
    typeof (error as { message?: unknown }).message === "string"
  );
}
