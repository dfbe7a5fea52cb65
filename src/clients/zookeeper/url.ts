// Parses zookeeper://user:password@h1:2181,h2:2181,h3:2181/root?tick-ms=2000 into hosts and
// options.

import { parseNumber, readOptionsWithPath, type UrlOptions } from "../shared/options.ts";
import { type HostPort, parseHosts, parseStoreUrl, type UrlKind } from "../shared/url.ts";

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
