// The public entry of the PostgreSQL store: its options, and the steps until it is open. The store
// itself is in store.ts; grant.sql.ts has the SQL functions that run in the database.

import {
  checkClient,
  LIBRARIES,
  openLink,
  type PostgresClient,
  type PostgresLibraryName,
} from "../../clients/postgres/open-link.ts";
import { parseConnectionUrl, parsePostgresUrl } from "../../clients/postgres/url.ts";
import {
  checkClientOptions,
  checkLibraryName,
  checkLogin,
  checkMilliseconds,
  checkUrlOrClient,
  DEFAULT_CONNECT_MS,
  mergeUrlOptions,
} from "../../clients/shared/options.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import type { OpenStore } from "../contract.ts";
import { checkSchema } from "./schema.ts";
import { openOnLink } from "./setup.ts";

export { type MigrationOptions, migrationSql } from "./schema.ts";
export type { PostgresClient, PostgresLibraryName };

/** Options of postgresStore(). */
export interface PostgresOptions {
  /**
   * `postgres://user:password@host:port/database`. With several hosts (`host1:5432,host2:5432`) the
   * store uses the first that accepts writes, and searches again when that one stops accepting
   * them. User, password, `?prefix=`, `?library=`, `?connect-ms=`, `?create-schema=` and `?listen=`
   * may be in the URL or in these options; settings of libpq such as `sslmode` are passed on.
   * Exactly one of `url` and `client`.
   */
  readonly url?: string | undefined;
  /**
   * Your own Pool or connected Client of pg, or your own instance (`sql`) of postgres.js. The store
   * does not close it.
   */
  readonly client?: PostgresClient | undefined;
  /** The library that connects to `url`. @default "pg" if it is installed, else "postgres" */
  readonly library?: PostgresLibraryName | undefined;
  /** The user for `url`. @default the choice of the library, such as PGUSER */
  readonly username?: string | undefined;
  /** The password for `url`. @default the choice of the library, such as PGPASSWORD */
  readonly password?: string | undefined;
  /**
   * The namespace: the PostgreSQL schema. All competing processes must use the same one.
   * @default "tenure"
   */
  readonly prefix?: string | undefined;
  /**
   * Whether a missing schema is created, which needs the privilege to create it. If false, run
   * migrationSql() yourself. @default true
   */
  readonly createSchema?: boolean | undefined;
  /**
   * How waiters and holders are notified. True: each process that waits, watches or holds a lease
   * uses one more connection. False: waiters poll ten times a second. A URL: the connection is made
   * to that address, to bypass a pooler in transaction mode, which would drop the notifications.
   * @default true
   */
  readonly listen?: boolean | string | undefined;
  /**
   * How long opening the store may take, in milliseconds. Too small: a slow start of the server
   * looks like an outage. Too large: a wrong address is noticed late. @default 5000
   */
  readonly connectMs?: number | undefined;
}

const POSTGRES_OPTIONS: OptionNames<PostgresOptions> = {
  url: true,
  client: true,
  library: true,
  username: true,
  password: true,
  prefix: true,
  createSchema: true,
  listen: true,
  connectMs: true,
};

/** A store on PostgreSQL (13 or newer). */
export function postgresStore(options: PostgresOptions): OpenStore {
  const call = "postgresStore()";
  checkOptionNames(call, options, POSTGRES_OPTIONS);
  checkUrlOrClient(call, options, "postgres://host/database");
  const { client } = options;
  if (client !== undefined) checkClient(client);
  checkClientOptions(call, options, ["library", "username", "password"]);
  checkLogin(options);
  const url = client === undefined ? parsePostgresUrl(options.url, options) : undefined;
  const merged = mergeUrlOptions<CheckedLater>(call, options, url?.options ?? {});
  const { listen = true, createSchema = true, connectMs = DEFAULT_CONNECT_MS } = merged;
  checkMilliseconds("connectMs", connectMs);
  const schema = checkSchema(merged.prefix ?? "tenure");
  const library = checkLibraryName(merged.library, LIBRARIES);
  const listenUrl =
    typeof listen === "string" ? parseConnectionUrl(listen, "`listen`").url : undefined;
  return async (parts) => {
    const giveUpAt = parts.clock.now() + connectMs;
    const target = { hosts: url?.hosts ?? [], client, library, listenUrl, connectMs };
    const link = await openLink(target, parts.clock);
    return openOnLink(link, { schema, createSchema, listens: listen !== false, giveUpAt }, parts);
  };
}

/** The text of a URL is not known to be the name of a library yet. */
type CheckedLater = Omit<PostgresOptions, "library"> & { readonly library?: string | undefined };
