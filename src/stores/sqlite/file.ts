// Opening a store file: every check that can be made before the first lease, each with an answer that says what to do.
// Nothing is created until they have passed, and a file that is not ours is left untouched.

import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  statfsSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import type { Clock } from "../../core/clock.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import type { Connection, Driver } from "./driver.ts";
import { failure, isBusy } from "./failures.ts";
import { APPLICATION_ID, SCHEMA, SCHEMA_VERSION } from "./schema.ts";

export interface FileOptions {
  readonly file: string;
  readonly allowNetworkFileSystem: boolean;
}

/** Numbers that statfs gives for file systems whose locks cross hosts, or for which we cannot know. */
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xfe534d42, "SMB2"],
  [0xff534d42, "CIFS"],
  [0x01021997, "9p"],
  [0x65735546, "FUSE (it may be remote)"],
  [0x5346414f, "AFS"],
  [0x00c36400, "Ceph"],
  [0x0bd00bd0, "Lustre"],
  [0x47504653, "GPFS"],
  [0x01161970, "GFS2"],
  [0x7461636f, "OCFS2"],
  [0x786f4256, "a VirtualBox shared folder"],
]);

/** Processes that start together wait for one of them to set the file up. */
const SETUP_LIMIT_MS = 10_000;
const SETUP_RETRY_MS = 5;

export async function openFile(
  driver: Driver,
  options: FileOptions,
  clock: Clock,
): Promise<Connection> {
  const file = resolve(options.file);
  checkPlace(file, options.allowNetworkFileSystem);
  createEmpty(file);
  checkWritable(file);
  const giveUpAt = clock.now() + SETUP_LIMIT_MS;
  for (;;) {
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

/** Exported for the test: no network file system can be mounted there. */
export function refuseNetworkFileSystem(type: number, folder: string): void {
  const name = NETWORK_FILE_SYSTEMS.get(type);
  if (name === undefined) return;
  throw new StoreUnusableError(
    `${folder} is on ${name}. SQLite's locks and this host's clock do not reach across hosts, so two could hold one ` +
      "lease. Use a local disk, or a store with a server. If only this host uses the folder, set " +
      "allowNetworkFileSystem: true (in a URL: ?allow-network-file-system=1).",
  );
}

function checkPlace(file: string, allowNetworkFileSystem: boolean): void {
  const folder = dirname(file);
  if (!existsSync(folder)) {
    throw new StoreUnusableError(
      `The folder ${folder} does not exist. Create it, or name another file.`,
    );
  }
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) {
    throw new StoreUnusableError(`${file} is a folder. Name a file in it, e.g. ${file}/tenure.db.`);
  }
  if (!allowNetworkFileSystem) refuseNetworkFileSystem(statfsSync(folder).type, folder);
}

/** Only its owner may read who holds what; SQLite gives its side files the same mode. */
function createEmpty(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (cause) {
    if ((cause as { code?: unknown }).code === "EEXIST") return;
    throw new StoreUnusableError(`${file} cannot be created: ${(cause as Error).message}.`, {
      cause,
    });
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
