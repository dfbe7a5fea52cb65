// The ledger: a small SQLite database next to the guarded file, with the highest tokens. Unlike a
// lock file, it has a lock that the operating system releases when a process dies, and data that
// survives kill -9 and a power failure. A process that is stopped while it has the lock keeps it,
// and all other writers wait until it continues or dies. They must not write in the meantime,
// because it may still finish its rename.

import type { Clock } from "../../async/clock.ts";
import { type Connection, loadDriver, SQLITE, sqliteCode } from "../../clients/sqlite/driver.ts";
import { ensureFile, identityOf, type PlaceOptions } from "../../clients/sqlite/file-identity.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import { padToken } from "../../core/token.ts";
import { LazyConnection } from "../shared/connection.ts";
import { paddedToken } from "../shared/stored.ts";

/** The lock was not released in time. The guard adds the resource and rethrows. */
export class LedgerLockedError extends Error {}

/**
 * A recorded append: `length` bytes from this offset belong to it, whether it was completed or not.
 */
export interface Append {
  readonly offset: number;
  readonly length: number;
}

/** The operations that need the lock. */
export interface Locked {
  highest(resource: string): bigint | undefined;
  advance(resource: string, token: bigint): void;
  /** For a reset by the operator. Nothing else can lower a highest token. */
  forget(resource: string): void;
  /** The latest recorded append, if any. */
  append(): Append | undefined;
  beginAppend(append: Append): void;
  /** Deletes the record: the file contains no incomplete append. */
  endAppend(): void;
}

const APPLICATION_ID = 0x54_4e_46_47;
const SCHEMA = `
  CREATE TABLE highest (
    resource TEXT PRIMARY KEY NOT NULL,
    token TEXT NOT NULL CHECK (length(token) = 39 AND token NOT GLOB '*[^0-9]*')
  ) WITHOUT ROWID;
  CREATE TABLE append (id INTEGER PRIMARY KEY CHECK (id = 1), offset INTEGER NOT NULL, length INTEGER NOT NULL);
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = 1;`;
const RETRY_MS = 3;

export interface LedgerOptions extends PlaceOptions {
  readonly file: string;
  readonly clock: Clock;
  readonly waitMs: number;
}

interface Opened {
  readonly connection: Connection;
  readonly notes: Locked;
}

export class Ledger {
  readonly #options: LedgerOptions;
  readonly #opened: LazyConnection<Opened>;
  #realFile = "";
  #identity = "";

  constructor(options: LedgerOptions) {
    this.#options = options;
    const open = (): Promise<Opened> =>
      this.#openFile().catch((error: unknown) => {
        throw this.#explain(error);
      });
    this.#opened = new LazyConnection("The file guard", open, ({ connection }) =>
      connection.close(),
    );
  }

  /**
   * Runs the work under the lock and commits its changes. The work is synchronous, so that the lock
   * is never held across a turn of the event loop. If it throws, its changes are rolled back and
   * the error is rethrown.
   */
  async locked<T>(work: (locked: Locked) => T): Promise<T> {
    const { connection, notes } = await this.#opened.get();
    // All that follows is synchronous, and a writer in a loop must not starve timers and I/O, such
    // as renewals.
    await new Promise<void>((go) => this.#options.clock.soon(go));
    await this.#retryWhileBusy(() => connection.exec("BEGIN IMMEDIATE"));
    try {
      return commit(connection, () => {
        this.#rejectReplaced();
        return work(notes);
      });
    } catch (error) {
      throw this.#explain(error);
    }
  }

  async read<T>(work: (locked: Pick<Locked, "highest">) => T): Promise<T> {
    const { notes } = await this.#opened.get();
    try {
      this.#rejectReplaced();
      return work(notes);
    } catch (error) {
      throw this.#explain(error);
    }
  }

  close(): Promise<void> {
    return this.#opened.close();
  }

  async #openFile(): Promise<Opened> {
    const driver = await loadDriver();
    const file = ensureFile(this.#options.file, this.#options);
    this.#realFile = file;
    const connection = driver.open(file);
    try {
      // Our own retries do not block the event loop. Those of SQLite would.
      connection.exec("PRAGMA busy_timeout = 0");
      await this.#retryWhileBusy(() => prepare(connection, file));
      const notes = prepareNotes(connection, file);
      this.#identity = this.#findIdentity();
      return { connection, notes };
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  async #retryWhileBusy(work: () => void): Promise<void> {
    const { clock, waitMs } = this.#options;
    const giveUpAt = clock.now() + waitMs;
    for (;;) {
      try {
        return work();
      } catch (error) {
        if (sqliteCode(error) !== SQLITE.busy || clock.now() >= giveUpAt)
          throw this.#explain(error);
      }
      await new Promise<void>((again) => clock.setTimer(again, RETRY_MS, { keepAlive: true }));
      this.#opened.throwIfClosed();
    }
  }

  /** A lock on a deleted file does not exclude other processes, and they do not read its log. */
  #rejectReplaced(): void {
    const { file } = this.#options;
    if (this.#findIdentity() === this.#identity) return;
    throw new StoreUnusableError(
      `${file} (or its -wal or -shm file) was deleted or replaced while it was in use. Nothing was written. It remembers the highest tokens: ` +
        "put it back, or, if no former holder can be left, open the guard again.",
    );
  }

  #findIdentity(): string {
    const paths = [this.#options.file, `${this.#realFile}-wal`, `${this.#realFile}-shm`];
    return paths.map(identityOf).join(" ");
  }

  #explain(error: unknown): unknown {
    const { file, waitMs } = this.#options;
    const code = sqliteCode(error);
    if (code === undefined) return error;
    const said = (error as Error).message;
    if (code === SQLITE.busy) {
      return new LedgerLockedError(
        `${file} stayed locked for ${waitMs} ms (waitMs). Nothing was written. A process that was stopped in the middle ` +
          "of a guarded write keeps the lock until it goes on or ends",
        { cause: error },
      );
    }
    if (code === SQLITE.notadb || code === SQLITE.corrupt) return damaged(file, said, error);
    return new StoreUnusableError(`${file} cannot be used: ${said}. Nothing was written.`, {
      cause: error,
    });
  }
}

function prepare(connection: Connection, file: string): void {
  const readNumber = (query: string): number =>
    Number(Object.values(connection.prepare(query).get() ?? {})[0]);
  connection.exec("BEGIN IMMEDIATE");
  commit(connection, () => {
    const found = readNumber("PRAGMA application_id");
    const isEmpty = found === 0 && readNumber("SELECT count(*) FROM sqlite_schema") === 0;
    if (isEmpty) return connection.exec(SCHEMA);
    if (found === APPLICATION_ID) return undefined;
    throw new StoreUnusableError(
      `${file} is a SQLite file of another program. It was not touched. Name another one: fileGuard(path, { ledger }).`,
    );
  });
  // FULL: a new highest token is on the disk before the data is changed. `fullfsync` makes macOS
  // flush the disk cache.
  connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON");
  // The first read creates the -wal and -shm files, whose identity is checked later.
  connection.prepare("SELECT count(*) FROM highest").get();
}

/** Prepares the statements once per connection. */
function prepareNotes(connection: Connection, file: string): Locked {
  const highest = connection.prepare("SELECT token FROM highest WHERE resource = ?");
  // The WHERE clause repeats the rule, so that no bug elsewhere can lower a highest token.
  const advance = connection.prepare(
    `INSERT INTO highest (resource, token) VALUES (?, ?)
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token`,
  );
  const forget = connection.prepare("DELETE FROM highest WHERE resource = ?");
  // As text: the libraries lose digits above 2^53, or throw.
  const append = connection.prepare(
    "SELECT CAST(offset AS TEXT) AS offset, CAST(length AS TEXT) AS length FROM append",
  );
  const begin = connection.prepare(
    "INSERT OR REPLACE INTO append (id, offset, length) VALUES (1, ?, ?)",
  );
  const end = connection.prepare("DELETE FROM append");
  return {
    highest: (resource) => {
      const row = highest.get(resource);
      if (row === undefined) return undefined;
      const token = paddedToken(String(row.token));
      if (token === undefined) throw damaged(file, "a token is not a number");
      return token;
    },
    advance: (resource, token) => void advance.run(resource, padToken(token)),
    forget: (resource) => void forget.run(resource),
    append: () => {
      const row = append.get();
      if (row === undefined) return undefined;
      const [offset, length] = [sizeIn(row.offset), sizeIn(row.length)];
      // The file is truncated to this offset after a torn append. A wrong offset would destroy data
      // that others wrote.
      if (offset === undefined || length === undefined)
        throw damaged(file, "an append is no range");
      return { offset, length };
    },
    beginAppend: ({ offset, length }) => void begin.run(offset, length),
    endAppend: () => void end.run(),
  };
}

function sizeIn(value: unknown): number | undefined {
  const size = /^[0-9]{1,16}$/.test(String(value)) ? Number(value) : Number.NaN;
  return Number.isSafeInteger(size) ? size : undefined;
}

function damaged(file: string, said: string, cause?: unknown): StoreUnusableError {
  return new StoreUnusableError(
    `${file}, which remembers the highest tokens, is damaged (${said}). Nothing was written. Restore it from a copy; ` +
      "or, if no former holder can be left, delete it, and the next writer creates a new one.",
    { cause },
  );
}

/** Commits the transaction that has begun, or rolls it back if the work throws. */
function commit<T>(connection: Connection, work: () => T): T {
  try {
    const result = work();
    connection.exec("COMMIT");
    return result;
  } catch (error) {
    try {
      connection.exec("ROLLBACK");
    } catch {
      // SQLite has already rolled back, as it does when the disk is full.
    }
    throw error;
  }
}
