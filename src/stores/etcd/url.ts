// etcd://user:password@host1:2379,host2:2379/prefix?connect-ms=5000: the options of the store as one text. Several hosts
// make it no URL that the platform could read.

import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { TlsOptions } from "./http2-transport.ts";
import type { EtcdOptions } from "./options.ts";

const SETTINGS = ["connect-ms", "ca", "cert", "key", "servername"];
const EXAMPLE = '"etcd://10.0.0.1:2379,10.0.0.2:2379/prefix"';

export function etcdOptionsOf(url: string): EtcdOptions {
  const [, scheme = "", authority = "", path = "", query = ""] =
    /^(etcds?):\/\/([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/i.exec(url) ?? [];
  const at = authority.lastIndexOf("@");
  const hosts = authority.slice(at + 1);
  if (hosts === "")
    throw new InvalidArgumentError(`An etcd: URL needs at least one host, e.g. ${EXAMPLE}.`);
  const settings = settingsOf(query);
  const isTls = scheme.toLowerCase() === "etcds";
  const tls = tlsOf(settings);
  if (!isTls && tls !== undefined) {
    throw new InvalidArgumentError(
      "ca, cert, key and servername are for TLS: begin the URL with etcds://.",
    );
  }
  const connectMs = settings.get("connect-ms");
  const prefix = decoded(path.slice(1), "prefix");
  return {
    endpoints: hosts.split(","),
    ...(isTls ? { tls: tls ?? {} } : {}),
    ...(at < 0 ? {} : loginOf(authority.slice(0, at))),
    ...(prefix === "" ? {} : { prefix }),
    ...(connectMs === undefined ? {} : { connectMs: Number(connectMs) }),
  };
}

function settingsOf(query: string): ReadonlyMap<string, string> {
  const settings = new Map(new URLSearchParams(query));
  for (const name of settings.keys()) {
    if (!SETTINGS.includes(name)) {
      throw new InvalidArgumentError(
        `An etcd: URL has no setting "${name}"; known are ${SETTINGS.join(", ")}. The prefix is the path: ${EXAMPLE}.`,
      );
    }
  }
  return settings;
}

function loginOf(text: string): { username: string; password: string } {
  const [name = "", ...rest] = text.split(":");
  if (name === "" || rest.length === 0) {
    throw new InvalidArgumentError(
      "User and password of an etcd: URL belong together: etcd://user:password@host.",
    );
  }
  return {
    username: decoded(name, "user"),
    password: decoded(rest.join(":"), "password"),
  };
}

function decoded(text: string, what: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidArgumentError(
      `The ${what} of the etcd: URL is not percent-encoded correctly.`,
    );
  }
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
  } catch (cause) {
    throw new InvalidArgumentError(
      `\`${name}\` in the etcd: URL names a file that cannot be read: ${file}.`,
      { cause },
    );
  }
}
