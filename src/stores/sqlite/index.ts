// The public entry of the SQLite store: its options and the function that makes it. One file serves
// all processes of one machine. Expiry is judged by the host's boot clock, which all of them share.
// The store itself is in store.ts.

import { resolve } from "node:path";
import {
  checkLibraryName,
  checkMilliseconds,
  DEFAULT_CONNECT_MS,
  mergeUrlOptions,
} from "../../clients/shared/options.ts";
import { localDisk } from "../../clients/sqlite/disk.ts";
import { LIBRARIES, loadDriver, type SqliteLibraryName } from "../../clients/sqlite/driver.ts";
import { parseSqliteUrl } from "../../clients/sqlite/url.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import type { OpenStore } from "../contract.ts";
import { openFile } from "./file.ts";
import { SqliteStore } from "./store.ts";

export type { SqliteLibraryName };

/** Options of sqliteStore(). */
export interface SqliteOptions {
  /**
   * `sqlite:./tenure.db`. `?library=`, `?connect-ms=` and `?allow-network-file-system=1` may be in
   * the URL or in these options. Exactly one of `url` and `file`.
   */
  readonly url?: string | undefined;
  /**
   * The path of the store file, with any characters; created if it does not exist. All competing
   * processes must use the same file, which takes the place of the prefix of other stores.
   */
  readonly file?: string | undefined;
  /**
   * The module that opens the file.
   * @default "node:sqlite" if this Node has it, else "better-sqlite3"
   */
  readonly library?: SqliteLibraryName | undefined;
  /**
   * How long opening the store may take, in milliseconds, while other processes lock the file.
   * Too small: processes that start together fail. @default 5000
   */
  readonly connectMs?: number | undefined;
  /**
   * Allows a file on a network file system. Set it only if no second host can reach the folder:
   * with two hosts, two processes could hold one lease. @default false
   */
  readonly allowNetworkFileSystem?: boolean | undefined;
}

const SQLITE_OPTIONS: OptionNames<SqliteOptions> = {
  url: true,
  file: true,
  library: true,
  connectMs: true,
  allowNetworkFileSystem: true,
};

/** The embedded store: one SQLite file for all processes of one machine. */
export function sqliteStore(options: SqliteOptions): OpenStore {
  const call = "sqliteStore()";
  checkOptionNames(call, options, SQLITE_OPTIONS);
  if ((options?.url === undefined) === (options?.file === undefined)) {
    throw new InvalidArgumentError(
      'sqliteStore() needs either { url: "sqlite:./tenure.db" } or { file: "./tenure.db" }, not both.',
    );
  }
  const url = options.url === undefined ? {} : parseSqliteUrl(options.url);
  const merged = mergeUrlOptions<CheckedLater>(call, options, url);
  const { file, connectMs = DEFAULT_CONNECT_MS, allowNetworkFileSystem = false } = merged;
  if (typeof file !== "string" || file === "") {
    throw new InvalidArgumentError(
      'sqliteStore({ file }) needs the path of a file, e.g. "./tenure.db".',
    );
  }
  checkMilliseconds("connectMs", connectMs);
  const library = checkLibraryName(merged.library, LIBRARIES);
  return async (parts) => {
    // Throws, before anything is created, on a host whose processes do not share one clock.
    void parts.hostClock.bootId;
    const driver = await loadDriver(library);
    const settings = { file: resolve(file), allowNetworkFileSystem, connectMs };
    const connection = await openFile(driver, settings, parts.clock);
    return new SqliteStore({ connection, file: settings.file, disk: localDisk }, parts);
  };
}

/** The text of a URL is not known to be the name of a library yet. */
type CheckedLater = Omit<SqliteOptions, "library"> & { readonly library?: string | undefined };
