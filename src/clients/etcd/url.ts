// Parses etcd://user:password@host1:2379,host2:2379/prefix?connect-ms=5000 into hosts and options.

import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "../../core/errors.ts";
import { readOptionsWithPath, type UrlOptions } from "../shared/options.ts";
import { type HostPort, parseHosts, parseStoreUrl, type UrlKind } from "../shared/url.ts";
import type { EtcdTlsOptions } from "./http2-transport.ts";

const KIND: UrlKind = {
  name: "An etcd: URL",
  schemes: ["etcd", "etcds"],
  defaultPort: 2379,
  settings: ["prefix", "connect-ms", "ca", "cert", "key", "servername"],
};

export interface EtcdUrl {
  readonly hosts: readonly HostPort[];
  readonly isTls: boolean;
  readonly options: UrlOptions & { readonly tls?: EtcdTlsOptions | undefined };
}

export function parseEtcdUrl(text: unknown): EtcdUrl {
  const url = parseStoreUrl(text, KIND);
  const hosts = parseHosts(url, KIND);
  const isTls = url.scheme === "etcds";
  const tls = readTls(url.settings);
  if (!isTls && tls !== undefined) {
    throw new InvalidArgumentError(
      "ca, cert, key and servername are for TLS: begin the URL with etcds://.",
    );
  }
  const options = readOptionsWithPath(url, KIND, (path) => path.slice(1));
  return { hosts, isTls, options: { ...options, tls } };
}

/** ca, cert and key name files. */
function readTls(settings: ReadonlyMap<string, string>): EtcdTlsOptions | undefined {
  const contents = ["ca", "cert", "key"].flatMap((name): [string, Buffer][] => {
    const file = settings.get(name);
    return file === undefined ? [] : [[name, readSettingFile(name, file)]];
  });
  const servername = settings.get("servername");
  if (contents.length === 0 && servername === undefined) return undefined;
  return { ...Object.fromEntries(contents), ...(servername === undefined ? {} : { servername }) };
}

function readSettingFile(name: string, file: string): Buffer {
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
