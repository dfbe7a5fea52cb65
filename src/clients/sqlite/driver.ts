// The interface to SQLite: what Tenure needs of a connection, and the two libraries that provide
// it. `node:sqlite` is part of Node 22.13 and newer. On Node 20 it is better-sqlite3, an optional
// peer dependency.

import { StoreUnusableError } from "../../core/errors.ts";
import { findFault } from "../shared/libraries.ts";
import { missingLibrary } from "../shared/missing-library.ts";

type SqlValue = string | number | bigint | null;
export type Row = Record<string, SqlValue>;

export interface Statement {
  run(...values: SqlValue[]): { readonly changes: number | bigint };
  get(...values: SqlValue[]): Row | undefined;
  all(...values: SqlValue[]): Row[];
}

export interface Connection {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

/** The module that opens the file: the one of Node, or a package by its name in npm. */
export type SqliteLibraryName = "node:sqlite" | "better-sqlite3";

/** In the order in which they are tried. */
export const LIBRARIES: readonly SqliteLibraryName[] = ["node:sqlite", "better-sqlite3"];

export interface Driver {
  readonly name: SqliteLibraryName;
  open(file: string): Connection;
}

/** The named driver, or the first one that this Node has. */
export async function loadDriver(name?: SqliteLibraryName): Promise<Driver> {
  const order: readonly SqliteLibraryName[] = name === undefined ? LIBRARIES : [name];
  const failures: unknown[] = [];
  for (const candidate of order) {
    try {
      return candidate === "node:sqlite" ? await nodeSqlite() : await betterSqlite3();
    } catch (error) {
      failures.push(error);
    }
  }
  const unsupported = failures.find((error) => error instanceof StoreUnusableError);
  if (unsupported !== undefined) throw unsupported;
  throw missingLibrary({
    backend: "SQLite",
    tried: order,
    install:
      "Run `npm install better-sqlite3@12`, or use Node 22.13 or newer, which has SQLite built in.",
    cause: failures.at(-1),
  });
}

async function nodeSqlite(): Promise<Driver> {
  // Named through a variable because the types of Node 20 do not know it.
  const specifier: string = "node:sqlite";
  const library = (await import(specifier)) as { DatabaseSync: new (file: string) => Connection };
  return { name: "node:sqlite", open: (file) => new library.DatabaseSync(file) };
}

async function betterSqlite3(): Promise<Driver> {
  const specifier: string = "better-sqlite3";
  type Library = new (file: string, options: { timeout: number }) => Connection;
  const { default: Database } = (await import(specifier)) as { default: Library };
  const fault = findFault("better-sqlite3");
  if (fault !== undefined) throw new StoreUnusableError(fault);
  // A first connection proves that the native part fits this Node; the import alone does not load
  // it.
  new Database(":memory:", { timeout: 0 }).close();
  return { name: "better-sqlite3", open: (file) => new Database(file, { timeout: 0 }) };
}

/** The primary result codes of SQLite that Tenure distinguishes. */
export const SQLITE = {
  busy: 5,
  locked: 6,
  readonly: 8,
  ioerr: 10,
  corrupt: 11,
  full: 13,
  cantopen: 14,
  notadb: 26,
} as const;

const BY_NAME: Record<string, number> = {
  SQLITE_BUSY: SQLITE.busy,
  SQLITE_LOCKED: SQLITE.locked,
  SQLITE_READONLY: SQLITE.readonly,
  SQLITE_IOERR: SQLITE.ioerr,
  SQLITE_CORRUPT: SQLITE.corrupt,
  SQLITE_FULL: SQLITE.full,
  SQLITE_CANTOPEN: SQLITE.cantopen,
  SQLITE_NOTADB: SQLITE.notadb,
};

/**
 * The primary result code of an error of either library; 1 for codes that are not in the list.
 * Undefined if the error is not SQLite's.
 */
export function sqliteCode(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return errcode & 0xff;
  if (typeof code !== "string") return undefined;
  const primary = Object.keys(BY_NAME).find((name) => code === name || code.startsWith(`${name}_`));
  if (primary !== undefined) return BY_NAME[primary];
  return code.startsWith("SQLITE_") ? 1 : undefined;
}
