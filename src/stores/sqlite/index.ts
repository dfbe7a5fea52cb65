// The embedded store: one SQLite file for all processes of one machine. Expiry is judged by the host's boot clock, which all
// processes share: no wall clock, no skew. Its requests are in sqlite/store.ts.

import { resolve } from "node:path";
import { localDisk } from "../../clients/sqlite/disk.ts";
import { type DriverName, loadDriver } from "../../clients/sqlite/driver.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import type { OpenStore } from "../contract.ts";
import { openFile } from "./file.ts";
import { SqliteStore } from "./store.ts";

export interface SqliteOptions {
  /** The store file; made when it does not exist. All processes that compete must name the same file. */
  readonly file: string;
  /** @default node:sqlite where this Node has it, else better-sqlite3 */
  readonly driver?: DriverName | undefined;
  /** Only when no second host can reach the folder: there, two could hold one lease. @default false */
  readonly allowNetworkFileSystem?: boolean | undefined;
}

const SQLITE_OPTIONS: OptionNames<SqliteOptions> = {
  file: true,
  driver: true,
  allowNetworkFileSystem: true,
};

export function sqliteStore(options: SqliteOptions): OpenStore {
  checkOptionNames("sqliteStore()", options, SQLITE_OPTIONS);
  if (typeof options?.file !== "string" || options.file === "") {
    throw new InvalidArgumentError(
      'sqliteStore({ file }) needs the path of a file, e.g. "./tenure.db".',
    );
  }
  return async (parts) => {
    // Throws, before anything is created, on a host whose processes do not share one clock.
    void parts.hostClock.bootId;
    const driver = await loadDriver(options.driver);
    const file = resolve(options.file);
    const allowNetworkFileSystem = options.allowNetworkFileSystem ?? false;
    const connection = await openFile(driver, { file, allowNetworkFileSystem }, parts.clock);
    return new SqliteStore({ connection, file, disk: localDisk }, parts);
  };
}
