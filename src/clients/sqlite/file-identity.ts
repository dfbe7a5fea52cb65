// Checks that a file can be shared by its path. SQLite finds the -wal and -shm files, and a guard
// finds its ledger, by the path of the file. Two paths to one file therefore lead to two logs and
// two sets of locks, and two processes can hold one lease with the same token. The store and the
// guards for SQLite and plain files call this before they use a file.

import {
  closeSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  type Stats,
  statfsSync,
  statSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { StoreUnusableError } from "../../core/errors.ts";

/** statfs numbers of file systems whose locks may not reach all hosts that use them. */
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

export interface PlaceOptions {
  readonly allowNetworkFileSystem: boolean;
}

/**
 * Returns the real path of the file, with all symbolic links resolved; the file itself need not
 * exist yet. Throws StoreUnusableError if two processes could use it without seeing each other's
 * locks. Does not open the file: closing a descriptor would drop the locks that this process has on
 * it.
 */
export function checkPlace(path: string, options: PlaceOptions): string {
  const named = resolve(path);
  const folder = dirname(named);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new StoreUnusableError(
      `The folder ${folder} does not exist. Create it, or name another file.`,
    );
  }
  const stat = statSync(named, { throwIfNoEntry: false });
  if (stat === undefined) refuseDanglingLink(named);
  if (stat?.isFile() === false) {
    throw new StoreUnusableError(
      `${named} is ${stat.isDirectory() ? "a folder" : "a device, pipe or socket"}, not a plain file. Name another path.`,
    );
  }
  const file =
    stat === undefined ? join(realpathSync(folder), basename(named)) : realpathSync(named);
  if (stat !== undefined) refuseSecondPath(file, stat);
  const inspected = stat === undefined ? dirname(file) : file;
  if (!options.allowNetworkFileSystem)
    refuseNetworkFileSystem(statfsSync(inspected).type, inspected);
  return file;
}

/**
 * Checks the place of the file, creates the file if it does not exist, and returns its real path.
 * Only its owner may read it; SQLite gives its side files the same mode.
 */
export function ensureFile(path: string, options: PlaceOptions): string {
  const file = checkPlace(path, options);
  try {
    // Never opens a file that exists: closing it would drop the locks of other connections of this
    // process.
    closeSync(openSync(file, "wx", 0o600));
    return file;
  } catch (cause) {
    if ((cause as { code?: unknown }).code === "EEXIST") return file;
    throw new StoreUnusableError(`${file} cannot be created: ${(cause as Error).message}.`, {
      cause,
    });
  }
}

/**
 * Identifies the file that a path leads to, through symbolic links. It changes when the file is
 * deleted or replaced.
 */
export function identityOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "missing" : `${stat.dev}:${stat.ino}`;
}

/** Exported for the test of the list: most of these file systems cannot be mounted in a test. */
export function refuseNetworkFileSystem(type: number, path: string): void {
  const name = NETWORK_FILE_SYSTEMS.get(type);
  if (name === undefined) return;
  throw new StoreUnusableError(
    `${path} is on ${name}. Locks there may not reach other hosts, and hosts do not share a clock, so two processes could ` +
      "hold one lease or write at the same time. Use a local disk or a store with a server, or put the data behind a " +
      "service with httpGuard(). If no other host can reach this path, set allowNetworkFileSystem: true " +
      "(in a sqlite: URL: ?allow-network-file-system=1).",
  );
}

function refuseDanglingLink(named: string): void {
  // Anything else was created by another process since we looked for the file.
  if (lstatSync(named, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return;
  throw new StoreUnusableError(
    `${named} is a symbolic link to ${readlinkSync(named)}, which does not exist. Nothing was created. ` +
      "Create that file, or name another one.",
  );
}

const WHY =
  "The files beside it, which hold the locks and the newest tokens, are found by its path. A process that uses the other " +
  "path does not see them, so two processes could hold one lease or write at the same time.";

function refuseSecondPath(file: string, stat: Stats): void {
  if (stat.nlink > 1) {
    throw new StoreUnusableError(
      `${file} has ${stat.nlink} names (hard links). ${WHY} Delete the other names (find -samefile lists them), or use a ` +
        "symbolic link instead.",
    );
  }
  const mounted = mountedFrom(file, stat);
  if (mounted === undefined) return;
  throw new StoreUnusableError(
    `${file} is a mount point: ${mounted} is mounted on this single file. ${WHY} Mount the folder instead, for example ` +
      "docker run -v /srv/tenure:/data.",
  );
}

/**
 * What is mounted on the file itself, if anything. The device number does not show it reliably: a
 * bind mount keeps the device, and on overlayfs files and folders can have different ones. It is
 * compared only where there is no mount table.
 */
function mountedFrom(file: string, stat: Stats): string | undefined {
  let mounts: string;
  try {
    mounts = readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return statSync(dirname(file)).dev === stat.dev ? undefined : "another file system";
  }
  for (const line of mounts.split("\n")) {
    // "36 35 98:0 /srv/tenure.db /data/tenure.db rw - ext4 /dev/root rw": the mounted path on its
    // device, the mount point.
    const [, , , source = "", point = ""] = line.split(" ");
    if (unescaped(point) === file) return unescaped(source);
  }
  return undefined;
}

/** The mount table writes blanks, line ends and backslashes as octal numbers. */
function unescaped(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}
