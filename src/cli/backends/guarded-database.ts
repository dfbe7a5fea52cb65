// Opens the database whose tables `tenure guard` protects: PostgreSQL or SQLite, one interface.

import { existsSync } from "node:fs";
import { findUrlMistake } from "../../clients/shared/url-mistakes.ts";
import { redacted } from "../../core/redaction.ts";
import type { PostgresTarget, ProtectedTable } from "../../guards/postgres/index.ts";
import { CommandError, UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import { hideExperimentalWarnings } from "../node-warnings.ts";
import type { Options } from "../parsing/arguments.ts";

/** The highest tokens of a guard, for `reset`. */
export interface GuardTokens {
  highest(resource: string): Promise<bigint | undefined>;
  /** Removes the highest token if it is still `highest`. Resolves with true if no token is left. */
  reset(resource: string, highest: bigint): Promise<boolean>;
  close(): Promise<void>;
}

export interface GuardedDatabase extends GuardTokens {
  protect(table: string, resource: string): Promise<void>;
  /** `guard` is the schema of the guard, as reported by tables(). */
  unprotect(table: string, guard: string): Promise<void>;
  /** Lists all protected tables, or only the one with this name if it is protected. */
  tables(table?: string): Promise<readonly ProtectedTable[]>;
}

const CONNECT_MS = 5_000;
const BUSY_MS = 5_000;

/** Reads --database, otherwise TENURE_DATABASE. Empty if neither is set. */
export function parseDatabaseUrl(options: Options): {
  readonly url: string;
  readonly scheme: string;
} {
  const url = options.text("database") ?? process.env.TENURE_DATABASE ?? "";
  const mistake = url === "" ? undefined : findUrlMistake(url);
  if (mistake !== undefined) throw new UsageError(`--database must be a valid URL. ${mistake}`);
  return { url, scheme: /^([a-z+]+):/i.exec(url)?.[1]?.toLowerCase() ?? "" };
}

export async function openDatabase(options: Options): Promise<GuardedDatabase> {
  const { url, scheme } = parseDatabaseUrl(options);
  const guard = options.text("guard");
  if (scheme === "postgres" || scheme === "postgresql") return openPostgres(url, guard);
  if (scheme === "sqlite") return openSqlite(url, guard);
  throw new UsageError(
    url === ""
      ? "No database was given. Pass --database postgres://user@host/app or sqlite:./app.db, or set TENURE_DATABASE."
      : "--database must be a postgres: or sqlite: URL: tables can be protected only there.",
  );
}

async function openPostgres(url: string, schema: string | undefined): Promise<GuardedDatabase> {
  const { postgresGuard, protectedTables, protectTable, resetHighest, unprotectTable } =
    await import("../../guards/postgres/index.ts");
  const { loadLibrary } = await import("../../clients/postgres/open-link.ts");
  const { parseConnectionUrl } = await import("../../clients/postgres/url.ts");
  const only = parseConnectionUrl(url, "--database");
  const loaded = await loadLibrary();
  let target: PostgresTarget;
  let end: () => Promise<void>;
  if (loaded.name === "pg") {
    const client = new loaded.library.Client({
      connectionString: only.url,
      connectionTimeoutMillis: CONNECT_MS,
    });
    await client.connect().catch((error: unknown) => throwUnreachable(only.address, error));
    // A broken connection also fails the statement in flight, which reports the error.
    client.on("error", () => undefined);
    [target, end] = [client as unknown as PostgresTarget, () => client.end()];
  } else {
    const settings = { max: 1, connect_timeout: CONNECT_MS / 1_000, onnotice: () => undefined };
    const sql = loaded.library(only.url, settings);
    await Promise.resolve(sql.unsafe("SELECT 1")).catch((error: unknown) =>
      throwUnreachable(only.address, error),
    );
    [target, end] = [sql as unknown as PostgresTarget, () => sql.end({ timeout: 1 })];
  }
  return {
    protect: (table, resource) => protectTable(target, table, { resource, prefix: schema }),
    unprotect: (table, guard) => unprotectTable(target, table, { prefix: guard }),
    tables: (table) => protectedTables(target, { table }),
    highest: (resource) =>
      postgresGuard(target, { prefix: schema, createSchema: false }).highest(resource),
    reset: (resource, highest) => resetHighest(target, resource, { prefix: schema, highest }),
    close: end,
  };
}

async function openSqlite(url: string, table: string | undefined): Promise<GuardedDatabase> {
  hideExperimentalWarnings();
  const { protectedTables, protectTable, resetHighest, unprotectTable } = await import(
    "../../guards/sqlite/index.ts"
  );
  const { readHighest } = await import("../../guards/sqlite/reset.ts");
  const { loadDriver, sqliteCode } = await import("../../clients/sqlite/driver.ts");
  const { parseSqliteUrl } = await import("../../clients/sqlite/url.ts");
  const { file } = parseSqliteUrl(url);
  // Opening a missing file would create it.
  if (!existsSync(file)) throw new UsageError(`The file ${JSON.stringify(file)} does not exist.`);
  const driver = await loadDriver();
  const explainErrors = async <T>(act: () => T): Promise<T> => {
    try {
      return act();
    } catch (error) {
      if (sqliteCode(error) === undefined) throw error;
      return throwUnreachable(file, error);
    }
  };
  const database = await explainErrors(() => {
    const opened = driver.open(file);
    opened.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    // SQLite reads the file only now, so a file that is not a database fails here.
    opened.prepare("SELECT count(*) FROM sqlite_schema").get();
    return opened;
  });
  return {
    protect: (name, resource) =>
      explainErrors(() => protectTable(database, name, { resource, prefix: table })),
    unprotect: (name) => explainErrors(() => unprotectTable(database, name)),
    tables: (name) => explainErrors(() => protectedTables(database, { table: name })),
    highest: (resource) => explainErrors(() => readHighest(database, resource, table)),
    reset: (resource, highest) =>
      explainErrors(() => resetHighest(database, resource, { prefix: table, highest })),
    close: async () => database.close(),
  };
}

/** Throws a CommandError that names the database and the cause. */
export function throwUnreachable(place: string, error: unknown): never {
  const cause = redacted(error);
  const reason = cause.message || cause.name;
  const message = `The database at ${place} cannot be reached or used (${reason}). Nothing was changed.`;
  throw new CommandError(message, EXIT.unavailable, { code: "DATABASE_UNAVAILABLE" });
}
