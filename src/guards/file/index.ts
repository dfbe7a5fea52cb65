// The guard for a plain file, which any process of this host may replace or append to. The highest
// tokens are in a small database next to the file (ledger.ts), whose lock makes comparison and
// write one step. Two commits make it safe against kill -9 at any moment: the first raises the
// highest token and syncs it to the disk; the second compares it again under the lock and writes
// the data. Readers open the file as usual.

import { resolve } from "node:path";
import type { Clock } from "../../async/clock.ts";
import { checkPlace } from "../../clients/sqlite/file-identity.ts";
import { GuardUnavailableError, InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { checkToken } from "../../core/token.ts";
// biome-ignore lint/style/noRestrictedImports: guards are created without connect()
import { systemParts } from "../../runtime/system.ts";
import {
  admit,
  checkBound,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  resolveLastingSource,
  splitArguments,
  type TokenSource,
} from "../guard.ts";
import { appendWhole, fileSize, repairAppend, replaceWhole } from "./data.ts";
import { Ledger, LedgerLockedError, type Locked } from "./ledger.ts";

export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";

/** Options of resetHighest(). */
export interface ResetOptions
  extends Pick<FileGuardOptions, "ledger" | "waitMs" | "allowNetworkFileSystem"> {
  /** The highest token, as highest() returned it. If it has changed since, nothing is reset. */
  readonly highest: bigint;
}

/** Options of fileGuard(). */
export interface FileGuardOptions extends GuardOptions {
  /**
   * The file with the highest tokens. All writers of the same data must use the same one. By
   * default they do, however the path is written. @default the path with `.tenure` appended
   */
  readonly ledger?: string | undefined;
  /**
   * How long a guarded write waits for the lock, in milliseconds, before it is rejected. Too small:
   * writes are rejected when there are many writers. Too large: if a process was stopped while it
   * had the lock, all others wait that long. @default 5000
   */
  readonly waitMs?: number | undefined;
  /**
   * Allows a network file system (NFS, SMB, FUSE and others) for the file and its ledger. Set it
   * only if no other host can reach them. Locks may not work across hosts, and then a stale token
   * can be admitted. @default false
   */
  readonly allowNetworkFileSystem?: boolean | undefined;
  /** For tests. @default the system's */
  readonly clock?: Clock | undefined;
}

const FILE_GUARD_OPTIONS: OptionNames<FileGuardOptions> = {
  ...GUARD_OPTIONS,
  ledger: true,
  allowNetworkFileSystem: true,
  waitMs: true,
  clock: true,
};

const RESET_OPTIONS: OptionNames<ResetOptions> = {
  highest: true,
  ledger: true,
  waitMs: true,
  allowNetworkFileSystem: true,
};

/** A guard for one file of this host. */
export interface FileGuard extends Guard, AsyncDisposable {
  /**
   * Replaces the whole content of the file. Readers see either the old or the new content. The data
   * is on the disk when the promise resolves. The new file keeps the mode of the old one, and its
   * owner and group if this user may set them: root may set both, other users only a group that
   * they belong to.
   */
  replace(data: string | Uint8Array): Promise<void>;
  /** The same, with an explicit lease or token. */
  replace(source: TokenSource, data: string | Uint8Array): Promise<void>;
  /**
   * Appends the data. It is on the disk when the promise resolves. If a crash interrupts an append,
   * the next write removes its bytes.
   */
  append(data: string | Uint8Array): Promise<void>;
  /** The same, with an explicit lease or token. */
  append(source: TokenSource, data: string | Uint8Array): Promise<void>;
  /** Raises the highest token to that of the source without writing anything else. */
  advance(source?: TokenSource): Promise<void>;
  /** Resolves with the highest token of the resource, or undefined before the first. */
  highest(resource: string): Promise<bigint | undefined>;
  /** Closes the ledger. Later calls reject with ClosedError. */
  close(): Promise<void>;
  /** The names of the methods above that write, for boundedBy(). */
  readonly writeMethods: readonly ("replace" | "append")[];
}

/**
 * A writer with the same token may append between our two steps. Every failed round means that
 * another writer succeeded.
 */
const ROUNDS_MAX = 1_000;

type Data = string | Uint8Array;

/** Creates a guard for the file at this path, which need not exist yet. Its folder must exist. */
export function fileGuard(path: string, options: FileGuardOptions = {}): FileGuard {
  return new GuardOnFile(path, options);
}

/**
 * Deletes the highest token of a resource, so that the guard admits the next token, whatever its
 * value. It then also admits late writes of every former holder. Call it only when no process is
 * left that holds, or held, a lease of the old store. Resolves with false if the highest is another
 * token, and with true if none is left.
 */
export async function resetHighest(
  path: string,
  resource: string,
  options: ResetOptions,
): Promise<boolean> {
  checkOptionNames("resetHighest()", options, RESET_OPTIONS);
  const { highest, ...place } = options;
  checkResource(resource);
  checkToken(highest);
  const guard = new GuardOnFile(path, place);
  try {
    return await guard.reset(resource, highest);
  } finally {
    await guard.close();
  }
}

class GuardOnFile implements FileGuard {
  readonly writeMethods = ["replace", "append"] as const;
  readonly #bound: string | undefined;
  readonly #file: string;
  readonly #ledger: Ledger;

  constructor(path: string, options: FileGuardOptions) {
    this.#bound = checkBound("fileGuard()", options, FILE_GUARD_OPTIONS);
    if (typeof path !== "string" || path === "")
      throw new InvalidArgumentError("fileGuard(path) needs the path of a file.");
    const place = { allowNetworkFileSystem: options.allowNetworkFileSystem ?? false };
    // The real path, so that a guard for a symbolic link uses the same ledger and does not replace
    // the link.
    this.#file = checkPlace(path, place);
    const waitMs = checkWait(options.waitMs ?? 5_000);
    const clock = options.clock ?? systemParts().clock;
    const file = resolve(options.ledger ?? `${this.#file}.tenure`);
    this.#ledger = new Ledger({ file, clock, waitMs, ...place });
  }

  async replace(...args: [TokenSource, Data] | [Data]): Promise<void> {
    const [given, data] = splitArguments(args);
    const bytes = toBytes(data);
    const source = resolveLastingSource(given, this.#bound);
    await this.#repeat(source, async () => {
      const done = await this.#locked(source, (locked) => {
        // A recorded append must be cleared first. Otherwise a later repair could truncate the new
        // data.
        if (!isAdvanced(locked, source) || locked.append() !== undefined) return false;
        replaceWhole(this.#file, bytes, () => admit(source, undefined));
        return true;
      });
      if (done) return true;
      await this.#locked(source, (locked) => {
        advanceTo(locked, source);
        repairAppend(this.#file, locked.append());
        locked.endAppend();
      });
      return false;
    });
  }

  async append(...args: [TokenSource, Data] | [Data]): Promise<void> {
    const [given, data] = splitArguments(args);
    const bytes = toBytes(data);
    const source = resolveLastingSource(given, this.#bound);
    await this.#repeat(source, async () => {
      // First record the append on the disk, so that an incomplete one can be recognised and
      // removed.
      const begun = await this.#locked(source, (locked) => {
        advanceTo(locked, source);
        repairAppend(this.#file, locked.append());
        const append = { offset: fileSize(this.#file), length: bytes.length };
        locked.beginAppend(append);
        return append;
      });
      return this.#locked(source, (locked) => {
        if (!isAdvanced(locked, source)) return false;
        // Another writer came between the two steps.
        const latest = locked.append();
        if (latest?.offset !== begun.offset || latest.length !== begun.length) return false;
        if (fileSize(this.#file) !== begun.offset) return false;
        appendWhole(this.#file, bytes, begun.offset);
        return true;
      });
    });
  }

  async advance(given?: TokenSource): Promise<void> {
    const source = resolveLastingSource(given, this.#bound);
    await this.#locked(source, (locked) => advanceTo(locked, source));
  }

  async highest(resource: string): Promise<bigint | undefined> {
    checkResource(resource);
    return this.#ledger.read((locked) => locked.highest(resource));
  }

  /**
   * Runs under the lock of all guarded writes. Not part of the interface, because holders never
   * call it.
   */
  async reset(resource: string, highest: bigint): Promise<boolean> {
    return this.#locked({ resource, token: highest }, (locked) => {
      const found = locked.highest(resource);
      if (found === highest) locked.forget(resource);
      return found === undefined || found === highest;
    });
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }

  async #locked<T>({ resource }: TokenSource, work: (locked: Locked) => T): Promise<T> {
    try {
      return await this.#ledger.locked(work);
    } catch (cause) {
      if (!(cause instanceof LedgerLockedError)) throw cause;
      throw GuardUnavailableError.from({ resource, detail: cause.message, applied: "no", cause });
    }
  }

  /** Repeats the two steps of a write until they are done. */
  async #repeat({ resource }: TokenSource, write: () => Promise<boolean>): Promise<void> {
    for (let round = 0; round < ROUNDS_MAX; round += 1) if (await write()) return;
    const detail = `other writers changed ${this.#file} between the two steps of this write, ${ROUNDS_MAX} times in a row. Nothing was written`;
    throw GuardUnavailableError.from({ resource, detail, applied: "no" });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#ledger.close();
  }
}

/**
 * Admits the token and raises the highest to it. The change is on the disk when the lock is
 * released.
 */
function advanceTo(locked: Locked, source: TokenSource): void {
  const highest = locked.highest(source.resource);
  const token = admit(source, highest);
  if (token !== highest) locked.advance(source.resource, token);
}

/**
 * Whether an earlier step has raised the highest to this token. Only then may the data be changed.
 */
function isAdvanced(locked: Locked, source: TokenSource): boolean {
  const highest = locked.highest(source.resource);
  return admit(source, highest) === highest;
}

function toBytes(data: unknown): Uint8Array {
  if (typeof data === "string") return Buffer.from(data);
  if (data instanceof Uint8Array) return data;
  throw new InvalidArgumentError(
    `Expected data as a text or bytes (Uint8Array), got ${typeof data}.`,
  );
}

function checkWait(waitMs: number): number {
  if (waitMs >= 0 && waitMs < 2 ** 31) return waitMs;
  throw new InvalidArgumentError(
    `\`waitMs\` must be a number of milliseconds, 0 or more, got ${waitMs}.`,
  );
}
