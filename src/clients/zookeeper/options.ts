// The options of the ZooKeeper store and guard, as an object or in a URL such as
// zookeeper://user:password@h1:2181,h2:2181,h3:2181/root?tick-ms=2000. Invalid options are rejected
// before anything is connected.

import type { ConnectionOptions } from "node:tls";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import {
  checkLogin,
  checkMilliseconds,
  DEFAULT_CONNECT_MS,
  mergeUrlOptions,
  parseNumber,
  readOptionsWithPath,
  type UrlOptions,
} from "../shared/options.ts";
import { type HostPort, parseHosts, parseStoreUrl, type UrlKind } from "../shared/url.ts";
import { dialer, type ZooKeeperDial } from "./hosts.ts";
import type { LinkSettings } from "./link.ts";
import type { Acl } from "./messages.ts";
import { type Names, namesOf } from "./names.ts";

/** Options of zookeeperStore(), and the target of zookeeperGuard(). */
export interface ZooKeeperOptions {
  /**
   * The members of the ensemble: `zookeeper://h1:2181,h2:2181,h3:2181`. Each entry must be one
   * server: with two entries or more, the store asks each of them which one leads and trusts the
   * answers. A load balancer must be the only entry. User, password, prefix, `?connect-ms=` and
   * `?tick-ms=` may be in the URL or in these options.
   */
  readonly url: string;
  /** For the digest scheme. All nodes then belong to this user alone. */
  readonly username?: string | undefined;
  /** The password of `username`. Set both or neither. */
  readonly password?: string | undefined;
  /**
   * The namespace: the root node below which everything is kept, created if it is missing. A path
   * such as "/apps/billing"; "billing" means "/billing". All competing processes must use the same
   * one. @default "tenure"
   */
  readonly prefix?: string | undefined;
  /**
   * The server's tickTime. Sessions end at multiples of it, so it determines how late a lease may
   * end (guarantees.expiryLagMs). Too small: that figure is too small; nothing else depends on it.
   * @default 2000
   */
  readonly tickMs?: number | undefined;
  /**
   * How long opening the store may take, in milliseconds. Too small: a slow start of the server
   * looks like an outage. Too large: a wrong address is noticed late. @default 5000
   */
  readonly connectMs?: number | undefined;
  /** TLS with these options of node:tls. The port is then the server's secureClientPort. */
  readonly tls?: ConnectionOptions | undefined;
  /** Makes connections in place of node:net and node:tls, for tunnels and proxies. */
  readonly connect?: ZooKeeperDial | undefined;
}

export interface Settings {
  readonly link: Omit<LinkSettings, "prefersLeader">;
  readonly names: Names;
  readonly acl: Acl;
  readonly tickMs: number;
}

const ZOOKEEPER_OPTIONS: OptionNames<ZooKeeperOptions> = {
  url: true,
  username: true,
  password: true,
  prefix: true,
  tickMs: true,
  connectMs: true,
  tls: true,
  connect: true,
};

const KIND: UrlKind = {
  name: "A zookeeper: URL",
  schemes: ["zookeeper"],
  defaultPort: 2181,
  settings: ["prefix", "connect-ms", "tick-ms"],
};

export interface ZooKeeperUrl {
  readonly hosts: readonly HostPort[];
  readonly options: UrlOptions & { readonly tickMs?: number | undefined };
}

export function parseZooKeeperUrl(text: unknown): ZooKeeperUrl {
  const url = parseStoreUrl(text, KIND);
  const hosts = parseHosts(url, KIND);
  const options = readOptionsWithPath(url, KIND, (path) => (path === "/" ? "" : path));
  return { hosts, options: { ...options, tickMs: parseNumber(url.settings, "tick-ms") } };
}

/** `call` is the function that was given the options: the store's or the guard's. */
export function checkZooKeeperOptions(
  options: ZooKeeperOptions,
  call = "zookeeperStore()",
): Settings {
  checkOptionNames(call, options, ZOOKEEPER_OPTIONS);
  const { hosts, options: fromUrl } = parseZooKeeperUrl(options?.url);
  const merged = mergeUrlOptions(call, options, fromUrl);
  const { username, password, tickMs = 2_000, connectMs = DEFAULT_CONNECT_MS } = merged;
  checkMilliseconds("tickMs", tickMs);
  checkMilliseconds("connectMs", connectMs);
  checkLogin(merged);
  if ((username === undefined) !== (password === undefined))
    throw new InvalidArgumentError("ZooKeeper needs `username` and `password` together.");
  if (username?.includes(":"))
    throw new InvalidArgumentError("A ZooKeeper user cannot have a colon in its name.");
  if (options.tls !== undefined && options.connect !== undefined)
    throw new InvalidArgumentError(
      "Give `tls` or `connect`, not both: `connect` makes the stream.",
    );
  return {
    link: {
      hosts,
      dial: options.connect ?? dialer(options.tls),
      auth: username === undefined ? undefined : `${username}:${password}`,
      connectMs,
    },
    names: namesOf(checkRoot(merged.prefix ?? "tenure")),
    acl: username === undefined ? { scheme: "world", id: "anyone" } : { scheme: "auth", id: "" },
    tickMs,
  };
}

/** The server accepts absolute paths with no empty part, no "." or "..", no control character. */
function checkRoot(prefix: unknown): string {
  const root = typeof prefix === "string" && !prefix.startsWith("/") ? `/${prefix}` : prefix;
  const parts = typeof root === "string" ? root.split("/").slice(1) : [];
  const isBad = (part: string): boolean => /^\.{0,2}$|[^ -~\u00a0-\ud7ff\uf900-\uffef]/.test(part);
  const isRoot = prefix === "/";
  if (typeof root !== "string" || (!isRoot && parts.some(isBad))) {
    throw new InvalidArgumentError(
      '`prefix`, the root node, must be a path like "/tenure" or "/apps/billing": no empty part, no "." and "..", no control character.',
    );
  }
  if (parts[0] === "zookeeper") {
    throw new InvalidArgumentError(
      '`prefix`, the root node, may not be below "/zookeeper", which is the server\'s own.',
    );
  }
  return root;
}
