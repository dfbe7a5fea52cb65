// From a URL to options: zookeeper://user:password@h1:2181,h2:2181,h3:2181/root?tick-ms=2000. The built-in parser knows one
// host only, so the list of hosts is taken apart here.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { ZooKeeperOptions } from "./options.ts";

const EXAMPLE = "zookeeper://h1:2181,h2:2181,h3:2181/tenure";
const KNOWN = ["tick-ms", "connect-ms"];

export function zookeeperOptionsOf(url: string): ZooKeeperOptions {
  const match = /^zookeeper:\/\/(?:([^@/?#]*)@)?([^/?#@]*)(\/[^?#]*)?(?:\?([^#]*))?$/i.exec(url);
  if (match === null) {
    throw new InvalidArgumentError(`A zookeeper: URL looks like ${EXAMPLE}; this one does not.`);
  }
  const [, login, hosts = "", path, query = ""] = match;
  const settings = new URLSearchParams(query);
  for (const name of settings.keys()) {
    if (KNOWN.includes(name)) continue;
    throw new InvalidArgumentError(
      `A zookeeper: URL has no setting "${name}"; known are ${KNOWN.join(" and ")}.`,
    );
  }
  const number = (name: string): number | undefined =>
    settings.has(name) ? Number(settings.get(name) || Number.NaN) : undefined;
  return {
    hosts,
    auth: login === undefined ? undefined : authOf(login),
    root: path === undefined || path === "/" ? undefined : decoded(path),
    tickMs: number("tick-ms"),
    connectMs: number("connect-ms"),
  };
}

function authOf(login: string): { user: string; password: string } {
  const colon = login.indexOf(":");
  if (colon < 1) {
    throw new InvalidArgumentError(
      "A zookeeper: URL with a user needs a password too: zookeeper://user:password@host.",
    );
  }
  return { user: decoded(login.slice(0, colon)), password: decoded(login.slice(colon + 1)) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw new InvalidArgumentError(
      'A zookeeper: URL has a "%" that is no percent-encoding; write %25 for it.',
      { cause },
    );
  }
}
