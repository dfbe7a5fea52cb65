// Parses a postgres: URL into the options of the store and one URL for each host that it names. The
// settings of libpq are passed on to the client library. The URLs for the library are rebuilt, so
// that it reads the same user and password as Tenure and does not fail on them: its error would
// contain the text.

import { InvalidArgumentError } from "../../core/errors.ts";
import { readUrlOptions, type UrlOptions } from "../shared/options.ts";
import {
  decodeUrlPart,
  parseHostPort,
  parseHosts,
  parseStoreUrl,
  type StoreUrl,
  type UrlKind,
} from "../shared/url.ts";

/** The settings of libpq, pg and postgres.js that people have in their URLs. */
const LIBRARY_SETTINGS: readonly string[] = `
  application_name channel_binding client_encoding connect_timeout database dbname
  fallback_application_name gssencmode host hostaddr idle_in_transaction_session_timeout
  keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname lock_timeout
  options passfile password port query_timeout replication search_path service ssl sslcert
  sslcompression sslcrl sslkey sslmode sslnegotiation sslpassword sslrootcert sslsni
  statement_timeout target_session_attrs tcp_user_timeout timezone TimeZone user
  uselibpqcompat`
  .trim()
  .split(/\s+/);

const KIND: UrlKind = {
  name: "A postgres: URL",
  schemes: ["postgres", "postgresql"],
  defaultPort: 5432,
  settings: ["prefix", "connect-ms", "library", "create-schema", "listen"],
  passedOn: LIBRARY_SETTINGS,
  hint: "The schema is the setting prefix; settings of libpq, such as sslmode, are passed on.",
};

/** A URL for a connection alone: the settings of a store are unknown in it. */
const CONNECTION: UrlKind = { ...KIND, settings: LIBRARY_SETTINGS, passedOn: [], hint: "" };

export interface PostgresUrl {
  readonly hosts: readonly HostUrl[];
  readonly options: Pick<UrlOptions, "prefix" | "connectMs"> & {
    readonly library: string | undefined;
    readonly createSchema: boolean | undefined;
    readonly listen: boolean | undefined;
  };
}

export interface HostUrl {
  /** For the client library. */
  readonly url: string;
  /** Host, port and database, for messages. */
  readonly address: string;
}

type Login = Pick<UrlOptions, "username" | "password">;

/** `given` is the login in the options, in place of that in the URL. */
export function parsePostgresUrl(text: unknown, given: Login = {}): PostgresUrl {
  const url = parseStoreUrl(text, KIND);
  const { prefix, connectMs } = readUrlOptions(url);
  return {
    hosts: toHostUrls(url, given),
    options: {
      prefix,
      connectMs,
      library: url.settings.get("library"),
      createSchema: parseSwitch(url, "create-schema"),
      listen: parseSwitch(url, "listen"),
    },
  };
}

/** Parses the URL of one connection. `what` names it in a message. */
export function parseConnectionUrl(text: unknown, what: string): HostUrl {
  const [only, ...others] = toHostUrls(parseStoreUrl(text, CONNECTION), {});
  if (only !== undefined && others.length === 0) return only;
  throw new InvalidArgumentError(`${what} names one host: that of the primary.`);
}

function parseSwitch({ settings }: StoreUrl, name: string): boolean | undefined {
  const text = settings.get(name);
  if (text === undefined) return undefined;
  if (text === "0" || text === "1") return text === "1";
  throw new InvalidArgumentError(`\`${name}\` in a postgres: URL is 1 or 0.`);
}

function toHostUrls(url: StoreUrl, given: Login): readonly HostUrl[] {
  // Otherwise the rest of a password that begins with "@/" would be taken for the name of a
  // database, and shown.
  if (url.login !== undefined && url.hosts === "") {
    throw new InvalidArgumentError(
      `${KIND.name} has a user but no host. Write the host after the "@", for example localhost. If the "@" belongs to the ` +
        "password, write it as %40.",
    );
  }
  const login = formatLogin(url, given);
  const path = formatPath(url.path);
  const query = formatQuery(url);
  return splitHosts(url).map((host) => ({
    url: `${url.scheme}://${login}${host}${path}${query}`,
    address: formatAddress(host, path),
  }));
}

/**
 * Without a host, the library uses its environment or the setting `host`. A host that begins with
 * %2F is the folder of a socket.
 */
function splitHosts(url: StoreUrl): string[] {
  const isSocket = /^(?:%2F[\w.%-]*)?$/i.test(url.hosts);
  if (!isSocket) parseHosts(url, KIND);
  else decodeUrlPart(url.hosts, KIND.name, "in its host");
  return url.hosts.split(",");
}

/** The settings for the library. It does not know target_session_attrs. */
function formatQuery({ settings }: StoreUrl): string {
  const target = settings.get("target_session_attrs") ?? "primary";
  if (target !== "read-write" && target !== "primary") {
    throw new InvalidArgumentError(
      "target_session_attrs in a postgres: URL is read-write or primary: only the primary can grant leases.",
    );
  }
  const passedOn = [...settings].filter(
    ([name]) => LIBRARY_SETTINGS.includes(name) && name !== "target_session_attrs",
  );
  const query = new URLSearchParams(passedOn).toString();
  return query === "" ? "" : `?${query}`;
}

function formatLogin({ login, hosts }: StoreUrl, given: Login): string {
  const { username, password } = given;
  const isGiven = username !== undefined || password !== undefined;
  if (isGiven && (login !== undefined || hosts === "")) {
    throw new InvalidArgumentError(
      login === undefined
        ? "`username` and `password` need a host in the postgres: URL."
        : "postgresStore() has a user or password in its options and in the URL. Remove one of the two.",
    );
  }
  const user = username ?? login?.user;
  if (user === undefined && !isGiven) return "";
  const secret = password ?? login?.password;
  const rest = secret === undefined ? "" : `:${encodeURIComponent(secret)}`;
  return `${encodeURIComponent(user ?? "")}${rest}@`;
}

/** pg does not decode %40 in a path, and postgres.js decodes nothing there. */
function formatPath(path: string): string {
  decodeUrlPart(path, KIND.name, "in its path");
  return path.replaceAll(" ", "%20").replaceAll("%40", "@");
}

function formatAddress(host: string, path: string): string {
  const at = parseHostPort(host, KIND.defaultPort);
  const name = at?.host.includes(":") ? `[${at.host}]` : (at?.host ?? "localhost");
  return `${name}:${at?.port ?? KIND.defaultPort}${path === "/" ? "" : path}`;
}
