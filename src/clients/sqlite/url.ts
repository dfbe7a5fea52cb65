// Parses sqlite:./tenure.db?settings into the options of the store. The path is not decoded.

import { InvalidArgumentError } from "../../core/errors.ts";
import { parseNumber } from "../shared/options.ts";
import { parseSettings } from "../shared/url.ts";
import { findUrlMistake } from "../shared/url-mistakes.ts";

const KIND = {
  name: "A sqlite: URL",
  settings: ["library", "connect-ms", "allow-network-file-system"],
  hasNoSecrets: true,
};

export interface SqliteUrl {
  readonly file: string;
  readonly library: string | undefined;
  readonly connectMs: number | undefined;
  readonly allowNetworkFileSystem: boolean | undefined;
}

export function parseSqliteUrl(text: unknown): SqliteUrl {
  const mistake = findUrlMistake(text);
  const [, rest] = typeof text === "string" ? (/^sqlite:(.*)$/is.exec(text) ?? []) : [];
  if (rest === undefined || mistake !== undefined) {
    const advice = mistake ?? 'It begins with "sqlite:"; this text does not.';
    throw new InvalidArgumentError(`${KIND.name} is expected. ${advice}`);
  }
  const [path = "", query = ""] = rest.split("?", 2);
  const file = path.startsWith("//") ? path.slice(2) : path;
  if (file === "" || file === ":memory:") {
    throw new InvalidArgumentError(
      'A sqlite: URL needs a file, e.g. "sqlite:./tenure.db". For a store inside this process use "memory:".',
    );
  }
  // The text after the scheme is another URL, or has a login. Messages about the file would show
  // its password.
  if (/:\/\//.test(file) || /^\/\/[^/]*:[^/]*@/.test(path)) {
    throw new InvalidArgumentError(
      'A sqlite: URL names a file and has no user, password or host: "sqlite:./tenure.db".',
    );
  }
  const settings = parseSettings(query, KIND);
  const allow = settings.get("allow-network-file-system");
  if (allow !== undefined && allow !== "0" && allow !== "1") {
    throw new InvalidArgumentError(
      `allow-network-file-system in a sqlite: URL is 1 or 0, got ${JSON.stringify(allow)}.`,
    );
  }
  return {
    file,
    library: settings.get("library"),
    connectMs: parseNumber(settings, "connect-ms"),
    allowNetworkFileSystem: allow === undefined ? undefined : allow === "1",
  };
}
