// From a URL to options: zookeeper://user:password@h1:2181,h2:2181,h3:2181/root?tick-ms=2000.

import { InvalidArgumentError } from "../../core/errors.ts";
import {
  decoded,
  hostsOf,
  type StoreUrl,
  settingsIn,
  storeUrlOf,
  type UrlKind,
} from "../shared/url.ts";
import type { ZooKeeperOptions } from "./options.ts";

const KIND: UrlKind = { name: "A zookeeper: URL", schemes: ["zookeeper"], defaultPort: 2181 };

export function zookeeperOptionsOf(text: string): ZooKeeperOptions {
  const url = storeUrlOf(text, KIND);
  hostsOf(url, KIND);
  const { hosts, path } = url;
  const settings = settingsIn(url.query, KIND, ["tick-ms", "connect-ms"]);
  const number = (name: string): number | undefined =>
    settings.has(name) ? Number(settings.get(name) || Number.NaN) : undefined;
  return {
    hosts,
    auth: authOf(url),
    root:
      path === "" || path === "/"
        ? undefined
        : decoded(path, "A zookeeper: URL has", "in its path"),
    tickMs: number("tick-ms"),
    connectMs: number("connect-ms"),
  };
}

function authOf({ login }: StoreUrl): { user: string; password: string } | undefined {
  if (login === undefined) return undefined;
  const { user, password } = login;
  if (user !== "" && password !== undefined) return { user, password };
  throw new InvalidArgumentError(
    "A zookeeper: URL with a password needs a user and one with a user a password: zookeeper://user:password@host.",
  );
}
