// From a URL to where Redis is: one server, the nodes of a cluster, or the Sentinels that know the master.

import { InvalidArgumentError } from "../../core/errors.ts";
import {
  decoded,
  type HostPort,
  hostsOf,
  type StoreUrl,
  settingsIn,
  storeUrlOf,
  type UrlKind,
} from "../shared/url.ts";

interface Login {
  readonly username?: string;
  readonly password?: string;
}

interface Common {
  /** What may be shown to a person. */
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

const KIND: UrlKind = {
  name: "A redis: URL",
  schemes: ["redis", "rediss", "redis+sentinel", "rediss+sentinel"],
  defaultPort: 6379,
};
const SENTINEL_PORT = 26379;
const SENTINEL_SETTINGS = ["sentinel-username", "sentinel-password"];

/** Our settings go into options; what says where the server is stays in the URL. */
export function redisOptionsOf(text: string): {
  url: string;
  prefix: string | undefined;
  library: "ioredis" | "redis" | undefined;
  replicas: number | undefined;
} {
  const { query } = storeUrlOf(text, KIND);
  const { prefix, replicas, library, ...others } = Object.fromEntries(new URLSearchParams(query));
  if (library !== undefined && library !== "ioredis" && library !== "redis") {
    throw new InvalidArgumentError('`library` in a redis: URL is "ioredis" or "redis".');
  }
  const rest = new URLSearchParams(others).toString();
  const [address = ""] = text.split("?", 1);
  const url = rest === "" ? address : `${address}?${rest}`;
  // Refused here already, so that the message can name all settings of a URL.
  placeOf(url);
  return {
    url,
    prefix,
    library,
    replicas: replicas === undefined ? undefined : Number(replicas),
  };
}

export function placeOf(text: string): Place {
  const url = storeUrlOf(text, KIND);
  const isSentinel = url.scheme.endsWith("+sentinel");
  const hosts = hostsOf(url, isSentinel ? { ...KIND, defaultPort: SENTINEL_PORT } : KIND);
  const known = ["cluster", ...(isSentinel ? SENTINEL_SETTINGS : [])];
  const hint =
    " connect() also accepts prefix, replicas and library in the URL; redisStore() takes them as options.";
  const settings = settingsIn(url.query, KIND, known, hint);
  const isCluster = clusterOf(settings);
  const common = {
    shown: `${url.hosts}${url.path === "/" ? "" : url.path}`,
    isTls: url.scheme.startsWith("rediss"),
    login: loginFrom(url.login?.user, url.login?.password),
  };
  if (isSentinel) {
    const [user, password] = SENTINEL_SETTINGS.map((name) => settings.get(name));
    if (isCluster) throw new InvalidArgumentError("A redis+sentinel: URL cannot have cluster=1.");
    return {
      ...common,
      kind: "sentinel",
      hosts,
      sentinelLogin: loginFrom(user, password),
      ...masterOf(url.path),
    };
  }
  const db = databaseOf(url.path);
  if (isCluster) {
    if (db !== 0)
      throw new InvalidArgumentError("A Redis cluster has only database 0: leave the path out.");
    return { ...common, kind: "cluster", hosts };
  }
  return { ...common, kind: "server", at: onlyHost(hosts, url), db };
}

function onlyHost(hosts: readonly HostPort[], url: StoreUrl): HostPort {
  const [only, ...others] = hosts;
  if (only !== undefined && others.length === 0) return only;
  throw new InvalidArgumentError(
    `A redis: URL with several hosts (${url.hosts}) needs ?cluster=1; for Sentinels write redis+sentinel://${url.hosts}/master.`,
  );
}

function clusterOf(settings: ReadonlyMap<string, string>): boolean {
  const cluster = settings.get("cluster") ?? "0";
  if (cluster === "0" || cluster === "1") return cluster === "1";
  throw new InvalidArgumentError("`cluster` in a redis: URL is 1 or 0.");
}

function databaseOf(path: string): number {
  if (/^(?:\/\d{0,9})?$/.test(path)) return Number(path.slice(1));
  throw new InvalidArgumentError(
    "The path of a redis: URL is the number of a database: redis://localhost:6379/0.",
  );
}

function masterOf(path: string): { master: string; db: number } {
  const [master = "", db = "0", ...rest] = path.slice(1).split("/");
  if (master === "" || rest.length > 0 || !/^\d{1,9}$/.test(db)) {
    throw new InvalidArgumentError(
      'A redis+sentinel: URL names the master behind the hosts, and perhaps a database: "redis+sentinel://sentinel-1:26379/mymaster/0".',
    );
  }
  return { master: decoded(master, "A redis: URL has", "in its path"), db: Number(db) };
}

function loginFrom(username: string | undefined, password: string | undefined): Login {
  return { ...(username ? { username } : {}), ...(password ? { password } : {}) };
}
