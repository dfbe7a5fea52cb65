// What the store asks of the file system besides SQLite: whether the files are still the same ones, and to be told when they
// are written. The simulator has one of its own.

import { statSync, watch } from "node:fs";

export interface Disk {
  /** What identifies the file behind a path: when it changes, somebody has deleted or replaced it under us. */
  identityOf(file: string): string;
  /** Calls `onReport` when the file is written, `onBroken` when it no longer will. Throws where the kernel cannot do it. */
  watch(file: string, onReport: () => void, onBroken: () => void): Watching;
}

export interface Watching {
  close(): void;
}

export const localDisk: Disk = {
  identityOf(file) {
    const stat = statSync(file, { throwIfNoEntry: false });
    return stat === undefined ? "missing" : `${stat.dev}:${stat.ino}`;
  },
  watch(file, onReport, onBroken) {
    return watch(file, { persistent: false }, onReport).on("error", onBroken);
  },
};
