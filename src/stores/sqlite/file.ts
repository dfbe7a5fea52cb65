// Opens a store file, after every check that can be made before the first lease. Each failure says
// what to do. Nothing is created until all checks have passed, and a file of another program is
// left untouched.

import { accessSync, constants } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "../../async/clock.ts";
import type { Connection, Driver } from "../../clients/sqlite/driver.ts";
import { failure, isBusy } from "../../clients/sqlite/failures.ts";
import { ensureFile, type PlaceOptions } from "../../clients/sqlite/file-identity.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import { APPLICATION_ID, SCHEMA, SCHEMA_VERSION } from "./schema.ts";

export interface FileOptions extends PlaceOptions {
  readonly file: string;
  /** Processes that start together wait this long until one of them has created the tables. */
  readonly connectMs: number;
}

const SETUP_RETRY_MS = 5;

export async function openFile(
  driver: Driver,
  options: FileOptions,
  clock: Clock,
): Promise<Connection> {
  const giveUpAt = clock.now() + options.connectMs;
  for (;;) {
    // Checked with every try: a link in the path may have changed while another process held the
    // lock.
    const file = ensureFile(options.file, options);
    checkWritable(file);
    const connection = driver.open(file);
    try {
      prepare(connection, file);
      return connection;
    } catch (error) {
      connection.close();
      if (!isBusy(error) || clock.now() >= giveUpAt) throw failure(error, file);
    }
    await new Promise<void>((again) => clock.setTimer(again, SETUP_RETRY_MS, { keepAlive: true }));
  }
}

function checkWritable(file: string): void {
  try {
    accessSync(file, constants.R_OK | constants.W_OK);
    accessSync(dirname(file), constants.W_OK);
  } catch (cause) {
    throw new StoreUnusableError(
      `${file} and its folder must be writable for this user: ${(cause as Error).message}.`,
      { cause },
    );
  }
}

function prepare(connection: Connection, file: string): void {
  // Our own retries do not block the event loop; those of SQLite would.
  connection.exec("PRAGMA busy_timeout = 0");
  if (isForeign(connection, file)) {
    throw new StoreUnusableError(
      `${file} is a SQLite file of another program. It was not touched. Name another file for Tenure.`,
    );
  }
  const mode = connection.prepare("PRAGMA journal_mode = WAL").get()?.journal_mode;
  if (mode !== "wal") {
    throw new StoreUnusableError(
      `${file} cannot use SQLite's WAL mode (got ${String(mode)}). Use a local disk.`,
    );
  }
  // FULL: a grant is on the disk before it is answered, so a power cut cannot lead to the same
  // token twice (S1). The second setting makes macOS flush to the disk itself.
  connection.exec("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON");
  connection.exec("BEGIN IMMEDIATE");
  try {
    if (numberOf(connection, "user_version") === 0) connection.exec(SCHEMA);
    connection.exec("COMMIT");
  } catch (error) {
    connection.exec("ROLLBACK");
    throw error;
  }
}

function isForeign(connection: Connection, file: string): boolean {
  // One snapshot: another process may be creating the tables at this moment.
  connection.exec("BEGIN");
  const application = numberOf(connection, "application_id");
  const version = numberOf(connection, "user_version");
  const tables = Number(
    connection.prepare("SELECT count(*) AS count FROM sqlite_schema").get()?.count,
  );
  connection.exec("COMMIT");
  if (application === APPLICATION_ID) {
    if (version === SCHEMA_VERSION || version === 0) return false;
    const isNewer = version > SCHEMA_VERSION;
    throw new StoreUnusableError(
      `${file} was written by ${isNewer ? "a newer" : "an older"} Tenure (schema ${version}, this ` +
        `one knows ${SCHEMA_VERSION}). It was not changed. ` +
        (isNewer
          ? "Upgrade Tenure here too."
          : "Stop all processes that use it and delete it; tokens continue above the earlier ones."),
    );
  }
  return application !== 0 || version !== 0 || tables > 0;
}

function numberOf(connection: Connection, pragma: string): number {
  return Number(connection.prepare(`PRAGMA ${pragma}`).get()?.[pragma]);
}
