// From a URL to where Redis is: one server, the nodes of a cluster, or the Sentinels that know the master. Read by hand, because
// no URL parser takes several hosts. Messages never contain more of it than hosts and paths: the rest may be secret.

import { InvalidArgumentError } from "../../core/errors.ts";

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

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
    | { readonly kind: "server"; readonly url: string }
    | { readonly kind: "cluster"; readonly hosts: readonly HostPort[] }
    | {
        readonly kind: "sentinel";
        readonly hosts: readonly HostPort[];
        readonly master: string;
        readonly db: number;
        readonly sentinelLogin: Login;
      }
  );

const SHAPE = /^(rediss?)(\+sentinel)?:\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?(?:\?([^#]*))?$/i;
const EXAMPLE =
  '"redis://user:password@localhost:6379/0", "redis://node-1,node-2?cluster=1" or "redis+sentinel://sentinel-1,sentinel-2/master"';

/** Our settings go into options; what says where the server is stays in the URL. */
export function redisOptionsOf(text: string): {
  url: string;
  prefix: string | undefined;
  library: "ioredis" | "redis" | undefined;
  replicas: number | undefined;
} {
  const parts = SHAPE.exec(text);
  if (parts === null) throw badUrl();
  const settings = new URLSearchParams(parts[6] ?? "");
  const { prefix, replicas, library, ...others } = Object.fromEntries(settings);
  if (library !== undefined && library !== "ioredis" && library !== "redis") {
    throw new InvalidArgumentError('`library` in a redis: URL is "ioredis" or "redis".');
  }
  const query = new URLSearchParams(others).toString();
  const [address = ""] = text.split("?", 1);
  const url = query === "" ? address : `${address}?${query}`;
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
  const parts = SHAPE.exec(text);
  if (parts === null) throw badUrl();
  const [, scheme = "", sentinel, userinfo, authority = "", path = "", query = ""] = parts;
  const isTls = scheme.toLowerCase() === "rediss";
  const settings = Object.fromEntries(new URLSearchParams(query));
  const isCluster = takeCluster(settings);
  const hosts = authority
    .split(",")
    .map((host) => hostPort(host, sentinel === undefined ? 6379 : 26379));
  const common = {
    shown: `${authority}${path === "/" ? "" : path}`,
    isTls,
    login: login(userinfo),
  };
  if (sentinel !== undefined) {
    const sentinelLogin = loginFrom(settings["sentinel-username"], settings["sentinel-password"]);
    refuseOthers(settings, ["sentinel-username", "sentinel-password"]);
    if (isCluster) throw new InvalidArgumentError("A redis+sentinel: URL cannot have cluster=1.");
    return { ...common, kind: "sentinel", hosts, sentinelLogin, ...masterOf(path) };
  }
  refuseOthers(settings, []);
  if (isCluster) {
    if (path !== "" && path !== "/" && path !== "/0") {
      throw new InvalidArgumentError("A Redis cluster has only database 0: leave the path out.");
    }
    return { ...common, kind: "cluster", hosts };
  }
  if (hosts.length > 1) {
    throw new InvalidArgumentError(
      `A redis: URL with several hosts (${authority}) needs ?cluster=1; for Sentinels write redis+sentinel://${authority}/master.`,
    );
  }
  const [address = ""] = text.split("?", 1);
  return { ...common, kind: "server", url: address };
}

function takeCluster(settings: Record<string, string>): boolean {
  const { cluster } = settings;
  delete settings.cluster;
  if (cluster === undefined || cluster === "0") return false;
  if (cluster === "1") return true;
  throw new InvalidArgumentError("`cluster` in a redis: URL is 1 or 0.");
}

function refuseOthers(settings: Record<string, string>, known: readonly string[]): void {
  const unknown = Object.keys(settings).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const all = ["prefix", "replicas", "library", "cluster", ...known];
  throw new InvalidArgumentError(
    `A redis: URL has no setting "${unknown}"; known are ${all.slice(0, -1).join(", ")} and ${all.at(-1)}.`,
  );
}

function masterOf(path: string): { master: string; db: number } {
  const [master = "", db = "0", ...rest] = path.slice(1).split("/");
  if (master === "" || rest.length > 0 || !/^\d+$/.test(db)) {
    throw new InvalidArgumentError(
      'A redis+sentinel: URL names the master behind the hosts, and perhaps a database: "redis+sentinel://sentinel-1:26379/mymaster/0".',
    );
  }
  return { master: decoded(master), db: Number(db) };
}

function hostPort(text: string, defaultPort: number): HostPort {
  const parts = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::(\d+))?$/i.exec(text);
  const port = parts?.[2] === undefined ? defaultPort : Number(parts[2]);
  const host = parts?.[1]?.replace(/^\[|\]$/g, "");
  if (host === undefined || !(port > 0 && port < 65_536)) {
    throw new InvalidArgumentError(
      `"${text}" in a redis: URL is no host with a port, such as localhost:${defaultPort}.`,
    );
  }
  return { host, port };
}

function login(userinfo: string | undefined): Login {
  if (userinfo === undefined) return {};
  const [username = "", ...password] = userinfo.split(":");
  return loginFrom(decoded(username), decoded(password.join(":")));
}

function loginFrom(username: string | undefined, password: string | undefined): Login {
  return { ...(username ? { username } : {}), ...(password ? { password } : {}) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidArgumentError(
      "User, password or name in a redis: URL has a % that begins no code: write %25.",
    );
  }
}

function badUrl(): InvalidArgumentError {
  return new InvalidArgumentError(`A redis: URL must look like ${EXAMPLE}.`);
}
