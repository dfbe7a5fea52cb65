// What is done to the guarded file itself, always under the ledger's lock: replace it whole, add to it, and clear up behind
// a writer that died in the middle of either.

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

/** Write, fsync, rename, fsync of the folder. */
export function replaceWhole(file: string, data: Uint8Array, lastCheck: () => void): void {
  const fresh = temporaryName(file);
  rmSync(fresh, { force: true });
  try {
    const old = statSync(file, { throwIfNoEntry: false });
    const descriptor = openSync(fresh, "wx", 0o666);
    try {
      if (old !== undefined) keepRights(descriptor, old);
      writeAll(descriptor, data);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    // Writing may have taken long. What the lease allowed at its start is not put in place after its end.
    lastCheck();
    renameSync(fresh, file);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
  syncFolder(file);
}

/** The owner before the mode: changing the owner clears the set-user-id bit, which must not stay with another owner. */
function keepRights(descriptor: number, old: Stats): void {
  const hasGroup = tryOwner(descriptor, KEEP, old.gid);
  const hasOwner = tryOwner(descriptor, old.uid, KEEP);
  fchmodSync(descriptor, old.mode & (hasOwner && hasGroup ? 0o7777 : 0o777));
}

/** Tells fchown() to leave an id unchanged. */
const KEEP = -1;

function tryOwner(descriptor: number, uid: number, gid: number): boolean {
  try {
    fchownSync(descriptor, uid, gid);
    return true;
  } catch {
    // Not allowed for this user. The file then belongs to the writer, as any file that it creates.
    return false;
  }
}

export function appendWhole(file: string, data: Uint8Array, offset: number): void {
  const isNew = statSync(file, { throwIfNoEntry: false }) === undefined;
  const descriptor = openSync(file, "a", 0o666);
  try {
    writeAll(descriptor, data);
    fsyncSync(descriptor);
  } catch (error) {
    // A full disk, say. What is behind the offset is ours: nobody else writes under this lock.
    ftruncateSync(descriptor, offset);
    throw error;
  } finally {
    closeSync(descriptor);
  }
  if (isNew) syncFolder(file);
}

/** Clears up behind a writer that died: cuts off an append that ended in the middle. What is whole stays. */
export function repairAppend(file: string, begun: Append | undefined): void {
  rmSync(temporaryName(file), { force: true });
  if (begun === undefined) return;
  const size = fileSize(file);
  if (size <= begun.offset || size >= begun.offset + begun.length) return;
  const descriptor = openSync(file, "r+");
  try {
    ftruncateSync(descriptor, begun.offset);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function writeAll(descriptor: number, data: Uint8Array): void {
  for (let written = 0; written < data.length; ) written += writeSync(descriptor, data, written);
}

/** Only who has the lock uses this name, so what lies there otherwise is left of a crash. */
function temporaryName(file: string): string {
  return `${file}.tenure-new`;
}

function syncFolder(file: string): void {
  const descriptor = openSync(dirname(file), "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

export function fileSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
