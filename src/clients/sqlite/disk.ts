// What the store needs of the file system besides SQLite: the identity of a file, and reports of
// writes to it. The simulator has an implementation of its own.

import { realpathSync, watch } from "node:fs";
import { identityOf } from "./file-identity.ts";

export interface Disk {
  /** The path without symbolic links. SQLite puts the -wal and -shm files beside this one. */
  realPathOf(file: string): string;
  /**
   * Identifies the file that a path leads to, through symbolic links. It changes when the file is
   * deleted or replaced.
   */
  identityOf(file: string): string;
  /**
   * Calls `onReport` when the file is written, and `onBroken` when no further reports will come.
   * Throws if the kernel cannot report writes.
   */
  watch(file: string, onReport: () => void, onBroken: () => void): Watching;
}

export interface Watching {
  close(): void;
}

export const localDisk: Disk = {
  realPathOf: (file) => realpathSync(file),
  identityOf,
  watch(file, onReport, onBroken) {
    return watch(file, { persistent: false }, onReport).on("error", onBroken);
  },
};
