// The database whose tables `tenure guard` protects, PostgreSQL or SQLite, behind one small interface.

import { existsSync } from "node:fs";
import { mistakeIn } from "../../clients/shared/url-mistakes.ts";
import { redacted } from "../../core/redaction.ts";
import type { PostgresTarget, ProtectedTable } from "../../guards/postgres/index.ts";
import { CommandError, UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import { hideExperimentalWarnings } from "../node-warnings.ts";
import type { Options } from "../parsing/arguments.ts";

/** The highest tokens of a guard, for `reset`. */
export interface GuardTokens {
  highest(resource: string): Promise<bigint | undefined>;
  /** Forgets the highest if it is still this one; true if none is recorded any more. */
  reset(resource: string, highest: bigint): Promise<boolean>;
  close(): Promise<void>;
}

export interface GuardedDatabase extends GuardTokens {
  protect(table: string, resource: string): Promise<void>;
  /** `guard` is where its highest tokens are kept, as tables() told. */
  unprotect(table: string, guard: string): Promise<void>;
  /** All of them; with a name, that one where it is protected. */
  tables(table?: string): Promise<readonly ProtectedTable[]>;
}

const CONNECT_MS = 5_000;
const BUSY_MS = 5_000;

/** --database, else TENURE_DATABASE. */
export function databaseUrl(options: Options): { readonly url: string; readonly scheme: string } {
  const url = options.text("database") ?? process.env.TENURE_DATABASE ?? "";
  const mistake = url === "" ? undefined : mistakeIn(url);
  if (mistake !== undefined) throw new UsageError(`--database is a URL. ${mistake}`);
  return { url, scheme: /^([a-z+]+):/i.exec(url)?.[1]?.toLowerCase() ?? "" };
}

export async function openDatabase(options: Options): Promise<GuardedDatabase> {
  const { url, scheme } = databaseUrl(options);
  const guard = options.text("guard");
  if (scheme === "postgres" || scheme === "postgresql") return openPostgres(url, guard);
  if (scheme === "sqlite") return openSqlite(url.slice("sqlite:".length), guard);
  throw new UsageError(
    url === ""
      ? "Which database? Give --database postgres://user@host/app or sqlite:./app.db, or set TENURE_DATABASE."
      : "--database is a postgres: or a sqlite: URL: only there can tables be protected.",
  );
}

async function openPostgres(url: string, schema: string | undefined): Promise<GuardedDatabase> {
  const { postgresGuard, protectedTables, protectTable, resetHighest, unprotectTable } =
    await import("../../guards/postgres/index.ts");
  const { loadLibrary } = await import("../../clients/postgres/open-link.ts");
  const { oneHostUrlOf } = await import("../../clients/postgres/url.ts");
  const only = oneHostUrlOf(url, "--database");
  const loaded = await loadLibrary();
  let target: PostgresTarget;
  let end: () => Promise<void>;
  if (loaded.name === "pg") {
    const client = new loaded.library.Client({
      connectionString: only.url,
      connectionTimeoutMillis: CONNECT_MS,
    });
    await client.connect().catch((error: unknown) => unreachable(only.address, error));
    // A connection that breaks tells it by the statement under way.
    client.on("error", () => undefined);
    [target, end] = [client as unknown as PostgresTarget, () => client.end()];
  } else {
    const settings = { max: 1, connect_timeout: CONNECT_MS / 1_000, onnotice: () => undefined };
    const sql = loaded.library(only.url, settings);
    await Promise.resolve(sql.unsafe("SELECT 1")).catch((error: unknown) =>
      unreachable(only.address, error),
    );
    [target, end] = [sql as unknown as PostgresTarget, () => sql.end({ timeout: 1 })];
  }
  return {
    protect: (table, resource) => protectTable(target, table, { resource, schema }),
    unprotect: (table, guard) => unprotectTable(target, table, { schema: guard }),
    tables: (table) => protectedTables(target, { table }),
    highest: (resource) => postgresGuard(target, { schema, createSchema: false }).highest(resource),
    reset: (resource, highest) => resetHighest(target, resource, { schema, highest }),
    close: end,
  };
}

async function openSqlite(rest: string, table: string | undefined): Promise<GuardedDatabase> {
  hideExperimentalWarnings();
  const { protectedTables, protectTable, resetHighest, unprotectTable } = await import(
    "../../guards/sqlite/index.ts"
  );
  const { readHighest } = await import("../../guards/sqlite/reset.ts");
  const { loadDriver, sqliteCode } = await import("../../clients/sqlite/driver.ts");
  const { sqliteOptionsOf } = await import("../../stores/sqlite/url.ts");
  const { file } = sqliteOptionsOf(rest);
  // Opening a file that is not there would make one.
  if (!existsSync(file)) throw new UsageError(`There is no file ${JSON.stringify(file)}.`);
  const driver = await loadDriver();
  const inWords = async <T>(act: () => T): Promise<T> => {
    try {
      return act();
    } catch (error) {
      if (sqliteCode(error) === undefined) throw error;
      return unreachable(file, error);
    }
  };
  const database = await inWords(() => {
    const opened = driver.open(file);
    opened.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    // Only now is the file read: whatever is no database is noticed here.
    opened.prepare("SELECT count(*) FROM sqlite_schema").get();
    return opened;
  });
  return {
    protect: (name, resource) => inWords(() => protectTable(database, name, { resource, table })),
    unprotect: (name) => inWords(() => unprotectTable(database, name)),
    tables: (name) => inWords(() => protectedTables(database, { table: name })),
    highest: (resource) => inWords(() => readHighest(database, resource, table)),
    reset: (resource, highest) =>
      inWords(() => resetHighest(database, resource, { table, highest })),
    close: async () => database.close(),
  };
}

export function unreachable(place: string, error: unknown): never {
  const cause = redacted(error);
  const said = cause.message || cause.name;
  const message = `The database at ${place} cannot be reached or used (${said}). Nothing was changed.`;
  throw new CommandError(message, EXIT.unavailable, { code: "DATABASE_UNAVAILABLE" });
}
