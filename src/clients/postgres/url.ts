// From a postgres: URL to the options of the store and to one URL for each host that it names. The settings that are not ours are
// passed on to the client library. The URLs for the library are rebuilt, so that it reads the same user and password as we do
// and does not fail on them: its error would contain the text.

import { InvalidArgumentError } from "../../core/errors.ts";
import {
  decoded,
  hostPortOf,
  hostsOf,
  type StoreUrl,
  storeUrlOf,
  type UrlKind,
} from "../shared/url.ts";

const KIND: UrlKind = {
  name: "A postgres: URL",
  schemes: ["postgres", "postgresql"],
  defaultPort: 5432,
};

/** Our settings are taken out of the URL: the client libraries would pass them on to the server, which knows none. */
export function postgresOptionsOf(url: string): {
  url: string;
  schema: string | undefined;
  createSchema: boolean;
  listen: boolean;
} {
  checkUrl(url);
  const [place = "", query = ""] = url.split("?", 2);
  const settings = new URLSearchParams(query);
  const take = (name: string): string | undefined => {
    const value = settings.get(name) ?? undefined;
    settings.delete(name);
    return value;
  };
  const schema = take("schema");
  const createSchema = take("create-schema") !== "0";
  const listen = take("listen") !== "0";
  const rest = settings.toString();
  return { url: rest === "" ? place : `${place}?${rest}`, schema, createSchema, listen };
}

/** Throws if the URL is malformed. */
export function checkUrl(url: unknown): void {
  hostUrlsOf(url);
}

export interface HostUrl {
  /** For the client library. */
  readonly url: string;
  /** Host, port and database, for messages. */
  readonly address: string;
}

/** One for each host that the URL names, in order. */
export function hostUrlsOf(text: unknown): readonly HostUrl[] {
  const url = storeUrlOf(text, KIND);
  // Otherwise the rest of a password that begins with "@/" would be taken for the name of a database, and shown.
  if (url.login !== undefined && url.hosts === "") {
    throw new InvalidArgumentError(
      `${KIND.name} has a user but no host. Write the host after the "@", for example localhost. If the "@" belongs to the ` +
        "password, write it as %40.",
    );
  }
  const hosts = hostTextsOf(url);
  const query = queryOf(url.query);
  const login = loginOf(url);
  const path = pathOf(url.path);
  return hosts.map((host) => ({
    url: `${url.scheme}://${login}${host}${path}${query}`,
    address: addressOf(host, path),
  }));
}

/** `what` names the setting in a message. */
export function oneHostUrlOf(text: unknown, what: string): HostUrl {
  const [only, ...others] = hostUrlsOf(text);
  if (only !== undefined && others.length === 0) return only;
  throw new InvalidArgumentError(`${what} names one host: that of the primary.`);
}

/** Without a host, the library uses its environment or the setting `host`. A host that begins with %2F is the folder of a socket. */
function hostTextsOf(url: StoreUrl): string[] {
  const isSocket = /^(?:%2F[\w.%-]*)?$/i.test(url.hosts);
  if (!isSocket) hostsOf(url, KIND);
  else decoded(url.hosts, "A postgres: URL has", "in its host");
  return url.hosts.split(",");
}

function queryOf(text: string): string {
  const isBare = (setting: string): boolean => setting !== "" && !setting.includes("=");
  if (text.split("&").some(isBare)) {
    throw new InvalidArgumentError(
      'A postgres: URL has a setting without "=". If the value of the setting before it contains "&", write %26 there.',
    );
  }
  const settings = new URLSearchParams(text);
  const asked = settings.get("target_session_attrs");
  if (asked !== null && asked !== "read-write" && asked !== "primary") {
    throw new InvalidArgumentError(
      "target_session_attrs in a postgres: URL is read-write or primary: only the primary can grant leases.",
    );
  }
  settings.delete("target_session_attrs");
  const query = settings.toString();
  return query === "" ? "" : `?${query}`;
}

function loginOf({ login }: StoreUrl): string {
  if (login === undefined) return "";
  const { user, password } = login;
  const rest = password === undefined ? "" : `:${encodeURIComponent(password)}`;
  return `${encodeURIComponent(user)}${rest}@`;
}

/** pg does not decode %40 in a path, and postgres.js decodes nothing there. */
function pathOf(path: string): string {
  decoded(path, "A postgres: URL has", "in its path");
  return path.replaceAll(" ", "%20").replaceAll("%40", "@");
}

function addressOf(host: string, path: string): string {
  const at = hostPortOf(host, KIND.defaultPort);
  const name = at?.host.includes(":") ? `[${at.host}]` : (at?.host ?? "localhost");
  return `${name}:${at?.port ?? KIND.defaultPort}${path === "/" ? "" : path}`;
}
