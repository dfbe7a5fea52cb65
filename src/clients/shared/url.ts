// Reads the URL of a store on a server: scheme://user:password@host1,host2/path?settings. The platform's parser takes one host only
// and repeats the text in its errors. No message here contains any part of the text, because a malformed URL may have its
// password anywhere.

import { isIPv6 } from "node:net";
import { InvalidArgumentError } from "../../core/errors.ts";
import { hasLoneSurrogate } from "../../core/text.ts";
import { mistakeIn } from "./url-mistakes.ts";

/** What a store accepts. */
export interface UrlKind {
  /** As a message begins with it: "A redis: URL". */
  readonly name: string;
  readonly schemes: readonly string[];
  readonly defaultPort: number;
}

export interface StoreUrl {
  /** In lower case. */
  readonly scheme: string;
  /** Decoded. */
  readonly login: { readonly user: string; readonly password: string | undefined } | undefined;
  /** Between the login and the path, as written. */
  readonly hosts: string;
  /** Empty, or with a slash at its beginning; as written. */
  readonly path: string;
  readonly query: string;
}

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

const CODES: Readonly<Record<string, string>> = {
  "/": "%2F",
  "?": "%3F",
  "#": "%23",
  "@": "%40",
  "%": "%25",
};

export function storeUrlOf(text: unknown, kind: UrlKind): StoreUrl {
  const { name, schemes } = kind;
  const mistake = mistakeIn(text);
  if (mistake !== undefined || typeof text !== "string")
    throw new InvalidArgumentError(`${name} is expected. ${mistake ?? ""}`.trimEnd());
  const colon = text.indexOf("://");
  const scheme = text.slice(0, Math.max(0, colon)).toLowerCase();
  if (!schemes.includes(scheme)) {
    throw new InvalidArgumentError(
      `${name} begins with ${schemes.map((each) => `${each}://`).join(" or ")}; this text does not.`,
    );
  }
  const rest = text.slice(colon + "://".length);
  checkReserved(rest, name);
  const [, authority = "", path = "", query = ""] = /^([^/?]*)([^?]*)\??(.*)$/s.exec(rest) ?? [];
  const at = authority.indexOf("@");
  return {
    scheme,
    login: at < 0 ? undefined : loginOf(authority.slice(0, at), name),
    hosts: authority.slice(at + 1),
    path,
    query,
  };
}

/** Rejects a second "@", and characters before the last "@" that would end the login. */
function checkReserved(rest: string, name: string): void {
  const login = rest.slice(0, Math.max(0, rest.lastIndexOf("@")));
  const found = new Set(login.match(/[/?#@]/g));
  if (found.size > 0) {
    throw new InvalidArgumentError(
      `${name} has ${listOf([...found].map((each) => `"${each}"`))} in its user or password. ` +
        `Percent-encode ${found.size > 1 ? "them" : "it"}: write ${listOf([...found].map((each) => CODES[each] ?? ""))}. ` +
        'All text before the last "@" is read as user and password; an "@" after the host is written as %40.',
    );
  }
  if (rest.includes("#"))
    throw new InvalidArgumentError(`${name} cannot contain "#". Percent-encode it: write %23.`);
}

function loginOf(text: string, name: string): NonNullable<StoreUrl["login"]> {
  const [user = "", ...password] = text.split(":");
  const decode = (part: string): string => decoded(part, `${name} has`, "in its user or password");
  return {
    user: decode(user),
    password: password.length === 0 ? undefined : decode(password.join(":")),
  };
}

/** `what` and `where` make the message: "A redis: URL has" and "in its path". */
export function decoded(text: string, what: string, where: string): string {
  let plain: string | undefined;
  try {
    plain = decodeURIComponent(text);
  } catch {
    // The error below says more.
  }
  if (plain === undefined) {
    throw new InvalidArgumentError(
      `${what} a "%" ${where} that does not begin a percent-code such as %2F. For a literal "%", write %25.`,
    );
  }
  if (hasLoneSurrogate(plain) || plain.includes("\0"))
    throw new InvalidArgumentError(`${what} a character ${where} that no server accepts.`);
  return plain;
}

/** The hosts of a URL, each checked. */
export function hostsOf({ hosts }: StoreUrl, kind: UrlKind): HostPort[] {
  const [scheme = ""] = kind.schemes;
  return hosts.split(",").map((text, index) => {
    const host = hostPortOf(text, kind.defaultPort);
    if (host !== undefined) return host;
    const example = `host:${kind.defaultPort}`;
    throw new InvalidArgumentError(
      `${kind.name} is malformed: host ${index + 1} is not a host name or address with an optional port. ` +
        `User and password come before the hosts and end with "@": ${scheme}://user:password@${example}.`,
    );
  });
}

/** Undefined if the text is not a host name or address with an optional port. */
export function hostPortOf(text: string, defaultPort: number): HostPort | undefined {
  const [, address, name, digits] =
    /^(?:\[([0-9a-f:.]+)\]|([\p{L}\p{N}._-]+))(?::(\d{1,5}))?$/iu.exec(text) ?? [];
  const host = address ?? name;
  const port = digits === undefined ? defaultPort : Number(digits);
  if (host === undefined || port < 1 || port > 65_535) return undefined;
  return address === undefined || isIPv6(address) ? { host, port } : undefined;
}

/** Settings by name. An unknown name is not shown: it may be a part of a password. */
export function settingsIn(
  query: string,
  kind: UrlKind,
  known: readonly string[],
  hint = "",
): ReadonlyMap<string, string> {
  const settings = new Map(new URLSearchParams(query));
  if ([...settings.keys()].every((name) => known.includes(name))) return settings;
  throw new InvalidArgumentError(
    `${kind.name} has an unknown setting; known are ${listOf(known)}.${hint}`,
  );
}

function listOf(words: readonly string[]): string {
  const [last = "", ...before] = [...words].reverse();
  return before.length === 0 ? last : `${before.reverse().join(", ")} and ${last}`;
}
