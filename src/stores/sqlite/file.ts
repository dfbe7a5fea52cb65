// Opening a store file: every check that can be made before the first lease, each with an answer that says what to do.
// Nothing is created until they have passed, and a file that is not ours is left untouched.

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
  /** Processes that start together wait this long for one of them to set the file up. */
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
    // With every try: a link in the path may have been pointed elsewhere while another process held the lock.
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
  // Our own retries wait without blocking the event loop; SQLite's would block it.
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
  // FULL: a grant is on the disk before it is answered, so a power cut cannot make a token come twice (S1). The second
  // makes macOS really flush.
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
  // One snapshot: another process may be setting the file up at this moment.
  connection.exec("BEGIN");
  const application = numberOf(connection, "application_id");
  const version = numberOf(connection, "user_version");
  const tables = Number(
    connection.prepare("SELECT count(*) AS count FROM sqlite_schema").get()?.count,
  );
  connection.exec("COMMIT");
  if (application === APPLICATION_ID) {
    if (version <= SCHEMA_VERSION) return false;
    throw new StoreUnusableError(
      `${file} was written by a newer Tenure (schema ${version}, this one knows ${SCHEMA_VERSION}). ` +
        "It was not touched. Upgrade Tenure here too.",
    );
  }
  return application !== 0 || version !== 0 || tables > 0;
}

function numberOf(connection: Connection, pragma: string): number {
  return Number(connection.prepare(`PRAGMA ${pragma}`).get()?.[pragma]);
}
