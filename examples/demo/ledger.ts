// The resource of the demo: a ledger in its own SQLite file, separate from the lease store. Every
// entry records the token it was written with, so that the rows alone show whether a stale write
// was accepted.

import { type Connection, loadDriver } from "../../src/clients/sqlite/driver.ts";
import { parseToken } from "../../src/core/token.ts";
import type { TokenSource } from "../../src/guards/guard.ts";
import { type SqliteGuard, sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { ledgerFile } from "./messages.ts";

export interface Entry {
  readonly worker: string;
  readonly note: string;
}

export interface LedgerRow {
  readonly token: bigint;
  readonly worker: string;
}

/** How long a writer waits for another one. An entry takes well under a millisecond. */
const BUSY_TIMEOUT_MS = 2_000;

export class Ledger {
  readonly #connection: Connection;
  /** Undefined when the guard is switched off. */
  readonly #guard: SqliteGuard<Connection> | undefined;

  static async open(folder: string, guarded: boolean): Promise<Ledger> {
    const connection = (await loadDriver()).open(ledgerFile(folder));
    connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    connection.exec("PRAGMA journal_mode = WAL");
    connection.exec(
      `CREATE TABLE IF NOT EXISTS entry (
         seq INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL, worker TEXT NOT NULL, note TEXT NOT NULL)`,
    );
    return new Ledger(connection, guarded ? sqliteGuard(connection) : undefined);
  }

  private constructor(connection: Connection, guard: SqliteGuard<Connection> | undefined) {
    this.#connection = connection;
    this.#guard = guard;
  }

  /** Called by a new holder before its first entry, so that the former holder cannot write. */
  advance(source: TokenSource): void {
    this.#guard?.advance(source);
  }

  append(source: TokenSource, entry: Entry): void {
    const insert = (database: Connection): void => {
      database
        .prepare("INSERT INTO entry (token, worker, note) VALUES (?, ?, ?)")
        .run(String(source.token), entry.worker, entry.note);
    };
    if (this.#guard !== undefined) {
      this.#guard.transaction(source, insert);
      return;
    }
    // The usual code without a guard: check the lease, then write.
    source.check?.();
    insert(this.#connection);
  }

  rows(): LedgerRow[] {
    return this.#connection
      .prepare("SELECT token, worker FROM entry ORDER BY seq")
      .all()
      .map((row) => ({ token: parseToken(String(row.token)), worker: String(row.worker) }));
  }

  close(): void {
    this.#connection.close();
  }
}

/** Rows after a row with a larger token: accepted writes of a former holder. */
export function findStaleRows(rows: readonly LedgerRow[]): LedgerRow[] {
  let highest = 0n;
  return rows.filter(({ token }) => {
    if (token < highest) return true;
    highest = token;
    return false;
  });
}
