// Parses the URL of a store on a server: scheme://user:password@host1,host2/path?settings. The
// platform's URL parser accepts one host only and repeats the text in its errors. Messages here
// never contain a part of the text that could be a password, and a malformed URL may have its
// password anywhere.

import { isIPv6 } from "node:net";
import { InvalidArgumentError } from "../../core/errors.ts";
import { findNearest } from "../../core/nearest.ts";
import { hasLoneSurrogate } from "../../core/text.ts";
import { findUrlMistake } from "./url-mistakes.ts";

/** What distinguishes the URLs of one store. */
export interface UrlKind {
  /** The subject of messages: "A redis: URL". */
  readonly name: string;
  readonly schemes: readonly string[];
  readonly defaultPort: number;
  /** Names of the settings that the store itself reads. Messages list them. */
  readonly settings: readonly string[];
  /** Further settings that are accepted, such as those of a client library. */
  readonly passedOn?: readonly string[];
  /** A sentence that follows the message about an unknown setting. */
  readonly hint?: string;
  /** True for URLs without a password: messages then show every unknown name. */
  readonly hasNoSecrets?: boolean;
}

export interface StoreUrl {
  /** In lower case. */
  readonly scheme: string;
  /** Decoded. */
  readonly login: { readonly user: string; readonly password: string | undefined } | undefined;
  /** The text between login and path, not decoded. */
  readonly hosts: string;
  /** Empty, or beginning with a slash; not decoded. */
  readonly path: string;
  /** The settings after the "?", decoded. All names are known. */
  readonly settings: ReadonlyMap<string, string>;
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

/** An unknown setting with a shorter name is not quoted: it may be the end of a password. */
const QUOTABLE_LENGTH = 5;

export function parseStoreUrl(text: unknown, kind: UrlKind): StoreUrl {
  const { name, schemes } = kind;
  const mistake = findUrlMistake(text);
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
    login: at < 0 ? undefined : parseLogin(authority.slice(0, at), name),
    hosts: authority.slice(at + 1),
    path,
    settings: parseSettings(query, kind),
  };
}

/** Rejects a second "@", and characters before the last "@" that would end the login. */
function checkReserved(rest: string, name: string): void {
  const login = rest.slice(0, Math.max(0, rest.lastIndexOf("@")));
  const found = new Set(login.match(/[/?#@]/g));
  if (found.size > 0) {
    const quoted = joinWords([...found].map((each) => `"${each}"`));
    const codes = joinWords([...found].map((each) => CODES[each] ?? ""));
    throw new InvalidArgumentError(
      `${name} has ${quoted} in its user or password. ` +
        `Percent-encode ${found.size > 1 ? "them" : "it"}: write ${codes}. ` +
        'All text before the last "@" is read as user and password; an "@" after the host is written as %40.',
    );
  }
  if (rest.includes("#"))
    throw new InvalidArgumentError(`${name} cannot contain "#". Percent-encode it: write %23.`);
}

function parseLogin(text: string, name: string): NonNullable<StoreUrl["login"]> {
  const [user = "", ...password] = text.split(":");
  const decode = (part: string): string => decodeUrlPart(part, name, "in its user or password");
  return {
    user: decode(user),
    password: password.length === 0 ? undefined : decode(password.join(":")),
  };
}

/** `name` and `where` are parts of the message: "A redis: URL" and "in its path". */
export function decodeUrlPart(text: string, name: string, where: string): string {
  let plain: string | undefined;
  try {
    plain = decodeURIComponent(text);
  } catch {
    // decodeURIComponent() does not say what is wrong; the error below does.
  }
  if (plain === undefined) {
    throw new InvalidArgumentError(
      `${name} has a "%" ${where} that does not begin a percent-code such as %2F. For a literal "%", write %25.`,
    );
  }
  if (hasLoneSurrogate(plain) || plain.includes("\0"))
    throw new InvalidArgumentError(`${name} has a character ${where} that no server accepts.`);
  return plain;
}

/** Parses and checks the hosts of a URL. */
export function parseHosts({ hosts }: StoreUrl, kind: UrlKind): HostPort[] {
  const [scheme = ""] = kind.schemes;
  return hosts.split(",").map((text, index) => {
    const host = parseHostPort(text, kind.defaultPort);
    if (host !== undefined) return host;
    const example = `host:${kind.defaultPort}`;
    throw new InvalidArgumentError(
      `${kind.name} is malformed: host ${index + 1} is not a host name or address with an optional port. ` +
        `User and password come before the hosts and end with "@": ${scheme}://user:password@${example}.`,
    );
  });
}

/** Undefined if the text is not a host name or address with an optional port. */
export function parseHostPort(text: string, defaultPort: number): HostPort | undefined {
  const [, address, name, digits] =
    /^(?:\[([0-9a-f:.]+)\]|([\p{L}\p{N}._-]+))(?::(\d{1,5}))?$/iu.exec(text) ?? [];
  const host = address ?? name;
  const port = digits === undefined ? defaultPort : Number(digits);
  if (host === undefined || port < 1 || port > 65_535) return undefined;
  return address === undefined || isIPv6(address) ? { host, port } : undefined;
}

type SettingsKind = Omit<UrlKind, "schemes" | "defaultPort">;

/** Settings by name. Also used for sqlite: URLs, which have no hosts. */
export function parseSettings(query: string, kind: SettingsKind): ReadonlyMap<string, string> {
  const isBare = (setting: string): boolean => setting !== "" && !setting.includes("=");
  if (query.split("&").some(isBare)) {
    throw new InvalidArgumentError(
      `${kind.name} has a setting without "=". If the value of the setting before it contains "&", write %26 there.`,
    );
  }
  const settings = [...new URLSearchParams(query)];
  const known = [...kind.settings, ...(kind.passedOn ?? [])];
  const unknown = settings.findIndex(([name]) => !known.includes(name));
  if (unknown >= 0) throw rejectSetting(settings[unknown]?.[0] ?? "", unknown, kind);
  return new Map(settings);
}

/**
 * The name is shown only if it resembles a known one. Any other name may be a part of a password
 * that contains "&" and "=".
 */
function rejectSetting(name: string, index: number, kind: SettingsKind): InvalidArgumentError {
  const meant = findNearest(name, [...kind.settings, ...(kind.passedOn ?? [])]);
  const hint = kind.hint === undefined ? "" : ` ${kind.hint}`;
  if (meant !== undefined && name.length >= QUOTABLE_LENGTH) {
    return new InvalidArgumentError(
      `${kind.name} has an unknown setting "${name}". Did you mean ${meant}?${hint}`,
    );
  }
  const which = kind.hasNoSecrets ? `"${name}"` : `(number ${index + 1} after the "?")`;
  return new InvalidArgumentError(
    `${kind.name} has an unknown setting ${which}; known are ${joinWords(kind.settings)}.${hint}`,
  );
}

function joinWords(words: readonly string[]): string {
  const [last = "", ...before] = [...words].reverse();
  return before.length === 0 ? last : `${before.reverse().join(", ")} and ${last}`;
}
