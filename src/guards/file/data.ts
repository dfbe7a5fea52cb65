// Operations on the guarded file itself: replace it, append to it, and repair it after a writer has
// crashed in the middle of either. The caller must hold the lock of the ledger.

import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import type { Append } from "./ledger.ts";

/** Writes a temporary file, syncs it, renames it over the old one and syncs the folder. */
export function replaceWhole(file: string, data: Uint8Array, lastCheck: () => void): void {
  const temporary = temporaryName(file);
  rmSync(temporary, { force: true });
  try {
    const old = statSync(file, { throwIfNoEntry: false });
    withFile(temporary, "wx", (descriptor) => {
      if (old !== undefined) keepRights(descriptor, old);
      writeAll(descriptor, data);
      fsyncSync(descriptor);
    });
    // Writing may have taken long, and the file must not be replaced after the lease has ended.
    lastCheck();
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(file);
}

/**
 * Sets the owner before the mode. A change of owner clears the set-user-id bit, and a new owner
 * must not get that bit.
 */
function keepRights(descriptor: number, old: Stats): void {
  const hasGroup = tryOwner(descriptor, KEEP, old.gid);
  const hasOwner = tryOwner(descriptor, old.uid, KEEP);
  fchmodSync(descriptor, old.mode & (hasOwner && hasGroup ? 0o7777 : 0o777));
}

/** With this value, fchown() does not change an id. */
const KEEP = -1;

function tryOwner(descriptor: number, uid: number, gid: number): boolean {
  try {
    fchownSync(descriptor, uid, gid);
    return true;
  } catch {
    // This user may not do it. The file then belongs to the writer, like any file that it creates.
    return false;
  }
}

export function appendWhole(file: string, data: Uint8Array, offset: number): void {
  const isNew = statSync(file, { throwIfNoEntry: false }) === undefined;
  withFile(file, "a", (descriptor) => {
    try {
      writeAll(descriptor, data);
      fsyncSync(descriptor);
    } catch (error) {
      // For example, the disk is full. All bytes after the offset are ours, because we hold the
      // lock.
      ftruncateSync(descriptor, offset);
      throw error;
    }
  });
  if (isNew) syncFolder(file);
}

/**
 * Repairs the file after a writer has crashed: removes its temporary file and truncates an
 * incomplete append. A complete append stays.
 */
export function repairAppend(file: string, begun: Append | undefined): void {
  rmSync(temporaryName(file), { force: true });
  if (begun === undefined) return;
  const size = fileSize(file);
  if (size <= begun.offset || size >= begun.offset + begun.length) return;
  withFile(file, "r+", (descriptor) => {
    ftruncateSync(descriptor, begun.offset);
    fsyncSync(descriptor);
  });
}

function writeAll(descriptor: number, data: Uint8Array): void {
  for (let written = 0; written < data.length; ) written += writeSync(descriptor, data, written);
}

/** Only the process with the lock uses this name, so an existing file was left by a crash. */
function temporaryName(file: string): string {
  return `${file}.tenure-new`;
}

function syncFolder(file: string): void {
  withFile(dirname(file), "r", fsyncSync);
}

/** Opens the file, runs the work and closes the file. */
function withFile(path: string, flags: string, work: (descriptor: number) => void): void {
  const descriptor = openSync(path, flags, 0o666);
  try {
    work(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

export function fileSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
