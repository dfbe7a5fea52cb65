// From a postgres: URL to the options of the store and, where it names several hosts, to one URL for each. The rest of it is
// the client library's affair. Messages never contain more than hosts and database: the rest may be secret.

import { InvalidArgumentError } from "../../core/errors.ts";

/** Our settings are taken out of the URL: the client libraries would pass them on to the server, which knows none. */
export function postgresOptionsOf(url: string): {
  url: string;
  schema: string | undefined;
  createSchema: boolean;
  listen: boolean;
} {
  const [place = "", query = ""] = url.split("?", 2);
  const settings = new URLSearchParams(query);
  const take = (name: string): string | undefined => {
    const value = settings.get(name) ?? undefined;
    settings.delete(name);
    return value;
  };
  const schema = take("schema");
  const createSchema = take("create-schema") !== "0";
  const listen = take("listen") !== "0";
  const rest = settings.toString();
  return { url: rest === "" ? place : `${place}?${rest}`, schema, createSchema, listen };
}

/** One URL for each host that it names, in order. */
export function hostUrlsOf(url: string): readonly string[] {
  const parts = /^([a-z]+:\/\/(?:[^@/?#]*@)?)([^/?#]*)([^?#]*)(?:\?([^#]*))?/i.exec(url);
  if (parts === null) return [url];
  const [, before = "", authority = "", path = "", query = ""] = parts;
  const settings = new URLSearchParams(query);
  const asked = settings.get("target_session_attrs");
  settings.delete("target_session_attrs");
  if (asked !== null && asked !== "read-write" && asked !== "primary") {
    throw new InvalidArgumentError(
      `target_session_attrs in a postgres: URL is read-write or primary, got ${JSON.stringify(asked)}: only the primary can grant leases.`,
    );
  }
  const hosts = authority.split(",");
  if (hosts.some((host) => host === "") && hosts.length > 1) {
    throw new InvalidArgumentError(
      `A postgres: URL with several hosts names each of them, e.g. "postgres://db-1:5432,db-2:5432/app"; got "${authority}".`,
    );
  }
  // A URL of one host is left as it was written.
  if (hosts.length === 1 && asked === null) return [url];
  const rest = settings.toString();
  return hosts.map((host) => `${before}${host}${path}${rest === "" ? "" : `?${rest}`}`);
}
