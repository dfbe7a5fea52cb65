// Databases for the tests of the SQLite guard: real files with one table, closed and removed after
// the tests of a file.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";

export interface UserFiles {
  newFile(): string;
  /**
   * A connection with default settings. A second one to the same file stands for another process.
   */
  open(file?: string): Connection;
}

export async function userFiles(): Promise<UserFiles> {
  const driver = await loadDriver();
  const folder = mkdtempSync(join(tmpdir(), "tenure-guards-"));
  const opened: Connection[] = [];
  afterAll(() => {
    for (const connection of opened) connection.close();
    rmSync(folder, { recursive: true, force: true });
  });
  let files = 0;
  const newFile = (): string => {
    files += 1;
    return join(folder, `${files}.db`);
  };
  return {
    newFile,
    open: (file = newFile()) => {
      const connection = driver.open(file);
      connection.exec("PRAGMA journal_mode = WAL");
      connection.exec(
        "CREATE TABLE IF NOT EXISTS entry (seq INTEGER PRIMARY KEY, text TEXT NOT NULL)",
      );
      opened.push(connection);
      return connection;
    },
  };
}
