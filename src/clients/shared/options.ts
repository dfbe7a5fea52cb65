// The options that all stores on a server share: url, client, username, password, prefix, connectMs
// and library. A setting of the URL and the option of the same meaning are alternatives.

import { InvalidArgumentError } from "../../core/errors.ts";
import { hasLoneSurrogate } from "../../core/text.ts";
import { decodeUrlPart, type StoreUrl, type UrlKind } from "./url.ts";

export const DEFAULT_CONNECT_MS = 5_000;

/** The shared options that a URL can have. */
export interface UrlOptions {
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly prefix?: string | undefined;
  readonly connectMs?: number | undefined;
}

/** Reads the shared options of a URL; the library is specific to a store. */
export function readUrlOptions({ login, settings }: StoreUrl): UrlOptions {
  return {
    username: login?.user === "" ? undefined : login?.user,
    password: login?.password,
    prefix: settings.get("prefix"),
    connectMs: parseNumber(settings, "connect-ms"),
  };
}

/**
 * The same for a store whose URL path is the prefix, and whose server takes a user only together
 * with a password. `trimPath` turns the decoded path into the prefix.
 */
export function readOptionsWithPath(
  url: StoreUrl,
  kind: UrlKind,
  trimPath: (path: string) => string,
): UrlOptions {
  const options = readUrlOptions(url);
  if (url.login !== undefined && (!options.username || options.password === undefined)) {
    const [scheme = ""] = kind.schemes;
    throw new InvalidArgumentError(
      `${kind.name} needs user and password together: ${scheme}://user:password@host.`,
    );
  }
  const path = trimPath(decodeUrlPart(url.path, kind.name, "in its path"));
  if (path !== "" && options.prefix !== undefined) {
    throw new InvalidArgumentError(
      `${kind.name} has the prefix as its path and as \`prefix\`. Remove one of the two.`,
    );
  }
  return { ...options, prefix: path === "" ? options.prefix : path };
}

/** Undefined if the setting is absent, NaN if its text is not a number. */
export function parseNumber(
  settings: ReadonlyMap<string, string>,
  name: string,
): number | undefined {
  const text = settings.get(name);
  return text === undefined ? undefined : Number(text || Number.NaN);
}

/**
 * The options together with those of the URL. An option in both places is rejected, because a user
 * who changes only one of the two would believe that the change took effect.
 */
export function mergeUrlOptions<Options extends object>(
  call: string,
  options: Options,
  fromUrl: Partial<Options>,
): Options {
  const merged = { ...options } as Record<string, unknown>;
  for (const [name, value] of Object.entries(fromUrl)) {
    if (value === undefined) continue;
    if (merged[name] !== undefined) {
      throw new InvalidArgumentError(
        `${call} has \`${name}\` in its options and in the URL. Remove one of the two.`,
      );
    }
    merged[name] = value;
  }
  return merged as Options;
}

/** Throws unless exactly one of `url` and `client` is given. `example` is a URL. */
export function checkUrlOrClient(
  call: string,
  options: { readonly url?: unknown; readonly client?: unknown } | undefined,
  example: string,
): void {
  if ((options?.url === undefined) !== (options?.client === undefined)) return;
  throw new InvalidArgumentError(
    `${call} needs either { url: "${example}" } or { client }, not both.`,
  );
}

/** Throws if an option is given that has no effect on a client that the user made. */
export function checkClientOptions(
  call: string,
  options: { readonly client?: unknown },
  names: readonly string[],
): void {
  if (options.client === undefined) return;
  const given = names.find(
    (name) => (options as Readonly<Record<string, unknown>>)[name] !== undefined,
  );
  if (given === undefined) return;
  throw new InvalidArgumentError(
    `\`${given}\` of ${call} belongs to \`url\`: a client of your own has its own settings.`,
  );
}

/** Throws if user or password is not text that a server can accept. Shows neither. */
export function checkLogin(login: Pick<UrlOptions, "username" | "password">): void {
  for (const name of ["username", "password"] as const) {
    const text: unknown = login[name];
    const isText = typeof text === "string" && !hasLoneSurrogate(text) && !text.includes("\0");
    if (text === undefined || (isText && text !== "")) continue;
    throw new InvalidArgumentError(
      `\`${name}\` must be text that is not empty and has no NUL character.`,
    );
  }
}

export function checkMilliseconds(name: string, value: unknown): number {
  if (typeof value === "number" && value > 0 && value < 2 ** 31) return value;
  throw new InvalidArgumentError(`\`${name}\` must be a number of milliseconds above 0.`);
}

/** Throws if the library is not one of `names`; undefined leaves the choice to the store. */
export function checkLibraryName<Name extends string>(
  library: string | undefined,
  names: readonly Name[],
): Name | undefined {
  if (library === undefined) return undefined;
  const found = names.find((name) => name === library);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(
    `\`library\` is ${names.map((name) => `"${name}"`).join(" or ")}; the given value is not.`,
  );
}
