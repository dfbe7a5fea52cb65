// Parses a redis: URL into options and the place of the server: one server, the nodes of a cluster,
// or the Sentinels that know the master.

import { InvalidArgumentError } from "../../core/errors.ts";
import {
  mergeUrlOptions,
  parseNumber,
  readUrlOptions,
  type UrlOptions,
} from "../shared/options.ts";
import {
  decodeUrlPart,
  type HostPort,
  parseHosts,
  parseStoreUrl,
  type StoreUrl,
  type UrlKind,
} from "../shared/url.ts";

export interface Login {
  readonly username?: string;
  readonly password?: string;
}

interface Common {
  /** The address for messages, without login. */
  readonly shown: string;
  readonly isTls: boolean;
  readonly login: Login;
}

export type Place = Common &
  (
    | { readonly kind: "server"; readonly at: HostPort; readonly db: number }
    | { readonly kind: "cluster"; readonly hosts: readonly HostPort[] }
    | {
        readonly kind: "sentinel";
        readonly hosts: readonly HostPort[];
        readonly master: string;
        readonly db: number;
        readonly sentinelLogin: Login;
      }
  );

const SENTINEL_PORT = 26379;
const SENTINEL_SETTINGS = ["sentinel-username", "sentinel-password"];
const KIND: UrlKind = {
  name: "A redis: URL",
  schemes: ["redis", "rediss", "redis+sentinel", "rediss+sentinel"],
  defaultPort: 6379,
  settings: ["prefix", "connect-ms", "library", "replicas", "cluster"],
};
const SENTINEL_KIND: UrlKind = {
  ...KIND,
  defaultPort: SENTINEL_PORT,
  settings: [...KIND.settings, ...SENTINEL_SETTINGS],
};

export interface RedisUrl {
  readonly place: Place;
  readonly options: Pick<UrlOptions, "prefix" | "connectMs"> & {
    readonly library: string | undefined;
    readonly replicas: number | undefined;
  };
}

/** `given` is the login in the options, in place of that in the URL. */
export function parseRedisUrl(text: unknown, given: Login = {}): RedisUrl {
  const isSentinel = typeof text === "string" && /^rediss?\+sentinel:/i.test(text);
  const kind = isSentinel ? SENTINEL_KIND : KIND;
  const url = parseStoreUrl(text, kind);
  const { username, password, prefix, connectMs } = readUrlOptions(url);
  const login = mergeUrlOptions("redisStore()", given, formatLogin(username, password));
  return {
    place: toPlace(url, kind, login),
    options: {
      prefix,
      connectMs,
      library: url.settings.get("library"),
      replicas: parseNumber(url.settings, "replicas"),
    },
  };
}

function toPlace(url: StoreUrl, kind: UrlKind, login: Login): Place {
  const { settings } = url;
  const hosts = parseHosts(url, kind);
  const isCluster = parseCluster(settings);
  const common = {
    shown: `${url.hosts}${url.path === "/" ? "" : url.path}`,
    isTls: url.scheme.startsWith("rediss"),
    login,
  };
  if (url.scheme.endsWith("+sentinel")) {
    const [user, password] = SENTINEL_SETTINGS.map((name) => settings.get(name));
    if (isCluster) throw new InvalidArgumentError("A redis+sentinel: URL cannot have cluster=1.");
    const sentinelLogin = formatLogin(user, password);
    return { ...common, kind: "sentinel", hosts, sentinelLogin, ...parseMaster(url.path) };
  }
  const db = parseDatabase(url.path);
  if (isCluster) {
    if (db !== 0)
      throw new InvalidArgumentError("A Redis cluster has only database 0: leave the path out.");
    return { ...common, kind: "cluster", hosts };
  }
  return { ...common, kind: "server", at: checkOneHost(hosts, url), db };
}

function checkOneHost(hosts: readonly HostPort[], url: StoreUrl): HostPort {
  const [only, ...others] = hosts;
  if (only !== undefined && others.length === 0) return only;
  throw new InvalidArgumentError(
    `A redis: URL with several hosts (${url.hosts}) needs ?cluster=1; for Sentinels write redis+sentinel://${url.hosts}/master.`,
  );
}

function parseCluster(settings: ReadonlyMap<string, string>): boolean {
  const cluster = settings.get("cluster") ?? "0";
  if (cluster === "0" || cluster === "1") return cluster === "1";
  throw new InvalidArgumentError("`cluster` in a redis: URL is 1 or 0.");
}

function parseDatabase(path: string): number {
  if (/^(?:\/\d{0,9})?$/.test(path)) return Number(path.slice(1));
  throw new InvalidArgumentError(
    "The path of a redis: URL is the number of a database: redis://localhost:6379/0.",
  );
}

function parseMaster(path: string): { master: string; db: number } {
  const [master = "", db = "0", ...rest] = path.slice(1).split("/");
  if (master === "" || rest.length > 0 || !/^\d{1,9}$/.test(db)) {
    throw new InvalidArgumentError(
      'A redis+sentinel: URL names the master after the hosts, and optionally a database: "redis+sentinel://sentinel-1:26379/mymaster/0".',
    );
  }
  return { master: decodeUrlPart(master, KIND.name, "in its path"), db: Number(db) };
}

function formatLogin(username: string | undefined, password: string | undefined): Login {
  return { ...(username ? { username } : {}), ...(password ? { password } : {}) };
}
