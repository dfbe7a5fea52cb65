// From a sqlite: URL to the options of the store.

import { InvalidArgumentError } from "../../core/errors.ts";

/** `rest` is what stands behind "sqlite:". */
export function sqliteOptionsOf(rest: string): { file: string; allowNetworkFileSystem: boolean } {
  const [path = "", query = ""] = rest.split("?", 2);
  const file = path.startsWith("//") ? path.slice(2) : path;
  if (file === "" || file === ":memory:") {
    throw new InvalidArgumentError(
      'A sqlite: URL needs a file, e.g. "sqlite:./tenure.db". For a store inside this process use "memory:".',
    );
  }
  // The text after the scheme is another URL, or has a login. Messages about the file would show its password.
  if (/:\/\//.test(file) || /^\/\/[^/]*:[^/]*@/.test(path)) {
    throw new InvalidArgumentError(
      'A sqlite: URL names a file and has no user, password or host: "sqlite:./tenure.db".',
    );
  }
  const settings = new URLSearchParams(query);
  for (const name of settings.keys()) {
    if (name !== "allow-network-file-system") {
      throw new InvalidArgumentError(
        `A sqlite: URL has no setting "${name}"; known is allow-network-file-system=1.`,
      );
    }
  }
  const allow = settings.get("allow-network-file-system") ?? "0";
  if (allow !== "0" && allow !== "1") {
    throw new InvalidArgumentError(
      `allow-network-file-system in a sqlite: URL is 1 or 0, got ${JSON.stringify(allow)}.`,
    );
  }
  return { file, allowNetworkFileSystem: allow === "1" };
}
