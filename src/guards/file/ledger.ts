// The file beside the guarded one that remembers the highest tokens: a small SQLite database. It gives what a lock file
// cannot: a lock across processes that the operating system frees when its holder dies, and a memory that survives
// kill -9 and a power cut. A process that is stopped inside the lock keeps it, and everyone stalls until it goes on or
// dies: no one may write past it, since it may yet finish its rename.

import type { Clock } from "../../async/clock.ts";
import { type Connection, loadDriver, SQLITE, sqliteCode } from "../../clients/sqlite/driver.ts";
import { ensureFile, identityOf, type PlaceOptions } from "../../clients/sqlite/file-identity.ts";
import { ClosedError, StoreUnusableError } from "../../core/errors.ts";
import { padToken, parseToken } from "../../core/token.ts";

/** The lock was not free in time. The guard knows whose write that was. */
export class LedgerLockedError extends Error {}

/** An append that was begun: so many bytes behind this offset are ours, whole or torn. */
export interface Append {
  readonly offset: number;
  readonly length: number;
}

/** What can be asked and noted while the lock is held. */
export interface Locked {
  highest(resource: string): bigint | undefined;
  advance(resource: string, token: bigint): void;
  /** For a reset by the operator: the only way in which a highest can fall. */
  forget(resource: string): void;
  /** The latest append that was begun, if any. */
  append(): Append | undefined;
  beginAppend(append: Append): void;
  /** Nothing in the file is in question any more. */
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
  #opening: Promise<Opened> | undefined;
  #realFile = "";
  #identity = "";
  #isClosed = false;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /**
   * Runs the work under the lock, and commits what it noted. The work is synchronous, so that the lock is never held
   * across a turn of the event loop. What it throws comes out, and nothing is noted.
   */
  async locked<T>(work: (locked: Locked) => T): Promise<T> {
    const { connection, notes } = await this.#open();
    // A writer in a loop must not crowd out timers and I/O, renewals among them: all that follows is synchronous.
    await new Promise<void>((go) => this.#options.clock.soon(go));
    await this.#whenFree(() => connection.exec("BEGIN IMMEDIATE"));
    try {
      this.#refuseReplaced();
      const result = work(notes);
      connection.exec("COMMIT");
      return result;
    } catch (error) {
      rollBack(connection);
      throw this.#explained(error);
    }
  }

  async read<T>(work: (locked: Pick<Locked, "highest">) => T): Promise<T> {
    const { notes } = await this.#open();
    try {
      this.#refuseReplaced();
      return work(notes);
    } catch (error) {
      throw this.#explained(error);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const opening = this.#opening;
    this.#opening = undefined;
    await opening?.then(
      ({ connection }) => connection.close(),
      () => undefined,
    );
  }

  #open(): Promise<Opened> {
    if (this.#isClosed) throw ClosedError.from({ what: "The file guard" });
    this.#opening ??= this.#openFile().catch((error: unknown) => {
      // The next call tries anew.
      this.#opening = undefined;
      throw this.#explained(error);
    });
    return this.#opening;
  }

  async #openFile(): Promise<Opened> {
    const driver = await loadDriver();
    const file = ensureFile(this.#options.file, this.#options);
    this.#realFile = file;
    const connection = driver.open(file);
    try {
      // Our own waiting does not block the event loop; SQLite's would.
      connection.exec("PRAGMA busy_timeout = 0");
      await this.#whenFree(() => prepare(connection, file));
      const notes = prepareNotes(connection, file);
      this.#identity = this.#findIdentity();
      return { connection, notes };
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  async #whenFree(work: () => void): Promise<void> {
    const { clock, waitMs } = this.#options;
    const giveUpAt = clock.now() + waitMs;
    for (;;) {
      try {
        return work();
      } catch (error) {
        if (sqliteCode(error) !== SQLITE.busy || clock.now() >= giveUpAt)
          throw this.#explained(error);
      }
      await new Promise<void>((again) => clock.setTimer(again, RETRY_MS, { keepAlive: true }));
      if (this.#isClosed) throw ClosedError.from({ what: "The file guard" });
    }
  }

  /** A lock on a file that is no longer there keeps no other process out, and no other process reads its log. */
  #refuseReplaced(): void {
    const { file } = this.#options;
    if (this.#findIdentity() === this.#identity) return;
    throw new StoreUnusableError(
      `${file} (or its -wal or -shm file) was deleted or replaced while it was in use. Nothing was written. It remembers the highest tokens: ` +
        "put it back, or, if no former holder can be left, open the guard anew.",
    );
  }

  #findIdentity(): string {
    const paths = [this.#options.file, `${this.#realFile}-wal`, `${this.#realFile}-shm`];
    return paths.map(identityOf).join(" ");
  }

  #explained(error: unknown): unknown {
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
  connection.exec("BEGIN IMMEDIATE");
  try {
    const found = Object.values(connection.prepare("PRAGMA application_id").get() ?? {})[0];
    const tables = Object.values(
      connection.prepare("SELECT count(*) AS count FROM sqlite_schema").get() ?? {},
    )[0];
    if (Number(found) === 0 && Number(tables) === 0) connection.exec(SCHEMA);
    else if (Number(found) !== APPLICATION_ID) {
      throw new StoreUnusableError(
        `${file} is a SQLite file of another program. It was not touched. Name another one: fileGuard(path, { ledger }).`,
      );
    }
    connection.exec("COMMIT");
  } catch (error) {
    rollBack(connection);
    throw error;
  }
  // FULL: an advanced highest is on the disk before the data is touched. The second makes macOS really flush.
  connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON");
  // The first read creates the -wal and -shm files.
  connection.prepare("SELECT count(*) FROM highest").get();
}

/** Prepared once per connection. */
function prepareNotes(connection: Connection, file: string): Locked {
  const highest = connection.prepare("SELECT token FROM highest WHERE resource = ?");
  // The WHERE repeats the rule in SQL: no mistake elsewhere can make a highest fall.
  const advance = connection.prepare(
    `INSERT INTO highest (resource, token) VALUES (?, ?)
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token`,
  );
  const forget = connection.prepare("DELETE FROM highest WHERE resource = ?");
  const append = connection.prepare("SELECT offset, length FROM append");
  const begin = connection.prepare(
    "INSERT OR REPLACE INTO append (id, offset, length) VALUES (1, ?, ?)",
  );
  const end = connection.prepare("DELETE FROM append");
  return {
    highest: (resource) => {
      const row = highest.get(resource);
      if (row === undefined) return undefined;
      if (!/^[0-9]{39}$/.test(String(row.token))) throw damaged(file, "a token is no number");
      return parseToken(String(row.token));
    },
    advance: (resource, token) => void advance.run(resource, padToken(token)),
    forget: (resource) => void forget.run(resource),
    append: () => {
      const row = append.get();
      return row && { offset: Number(row.offset), length: Number(row.length) };
    },
    beginAppend: ({ offset, length }) => void begin.run(offset, length),
    endAppend: () => void end.run(),
  };
}

function damaged(file: string, said: string, cause?: unknown): StoreUnusableError {
  return new StoreUnusableError(
    `${file}, which remembers the highest tokens, is damaged (${said}). Nothing was written. Restore it from a copy; ` +
      "or, if no former holder can be left, delete it, and the next writer starts it anew.",
    { cause },
  );
}

function rollBack(connection: Connection): void {
  try {
    connection.exec("ROLLBACK");
  } catch {
    // SQLite has done so by itself, as when the disk is full.
  }
}
