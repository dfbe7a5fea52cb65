// etcd://user:password@host1:2379,host2:2379/prefix?connect-ms=5000: the options of the store as one text.

import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "../../core/errors.ts";
import {
  decoded,
  hostsOf,
  type StoreUrl,
  settingsIn,
  storeUrlOf,
  type UrlKind,
} from "../shared/url.ts";
import type { TlsOptions } from "./http2-transport.ts";
import type { EtcdOptions } from "./options.ts";

const KIND: UrlKind = { name: "An etcd: URL", schemes: ["etcd", "etcds"], defaultPort: 2379 };
const SETTINGS = ["connect-ms", "ca", "cert", "key", "servername"];

export function etcdOptionsOf(text: string): EtcdOptions {
  const url = storeUrlOf(text, KIND);
  hostsOf(url, KIND);
  const hint = ' The prefix is the path: "etcd://10.0.0.1:2379,10.0.0.2:2379/prefix".';
  const settings = settingsIn(url.query, KIND, SETTINGS, hint);
  const isTls = url.scheme === "etcds";
  const tls = tlsOf(settings);
  if (!isTls && tls !== undefined) {
    throw new InvalidArgumentError(
      "ca, cert, key and servername are for TLS: begin the URL with etcds://.",
    );
  }
  const connectMs = settings.get("connect-ms");
  const prefix = decoded(url.path.slice(1), "An etcd: URL has", "in its path");
  return {
    endpoints: url.hosts.split(","),
    ...(isTls ? { tls: tls ?? {} } : {}),
    ...loginOf(url),
    ...(prefix === "" ? {} : { prefix }),
    ...(connectMs === undefined ? {} : { connectMs: Number(connectMs) }),
  };
}

function loginOf({ login }: StoreUrl): Pick<EtcdOptions, "username" | "password"> {
  if (login === undefined) return {};
  const { user: username, password } = login;
  if (username !== "" && password !== undefined) return { username, password };
  throw new InvalidArgumentError(
    "User and password of an etcd: URL belong together: etcd://user:password@host.",
  );
}

/** ca, cert and key name files. */
function tlsOf(settings: ReadonlyMap<string, string>): TlsOptions | undefined {
  const contents = ["ca", "cert", "key"].flatMap((name): [string, Buffer][] => {
    const file = settings.get(name);
    return file === undefined ? [] : [[name, contentOf(name, file)]];
  });
  const servername = settings.get("servername");
  if (contents.length === 0 && servername === undefined) return undefined;
  return { ...Object.fromEntries(contents), ...(servername === undefined ? {} : { servername }) };
}

function contentOf(name: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    // Neither the name nor the error, which contains it, is shown: the value may be the key itself.
    const { code } = error as { code?: unknown };
    throw new InvalidArgumentError(
      `\`${name}\` in the etcd: URL names a file that cannot be read (${String(code)}).`,
    );
  }
}
