// The door to the PostgreSQL store: its options, and what happens until it is open. The store itself is in postgres/store.ts;
// what happens inside one request, in the database, is in postgres/functions.ts.

import { checkClients, type LibraryName, openLink } from "../../clients/postgres/open-link.ts";
import type { PgClient, PgPool } from "../../clients/postgres/pg-link.ts";
import type { PostgresJs } from "../../clients/postgres/postgresjs-link.ts";
import { checkUrl, oneHostUrlOf } from "../../clients/postgres/url.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import type { OpenStore } from "../contract.ts";
import { openOnLink } from "./open-store.ts";
import { checkSchema } from "./schema.ts";

export { migrationSql } from "./schema.ts";

export interface PostgresOptions {
  /**
   * postgres://user:password@host:port/database. Exactly one of url, pool and sql. Of several hosts (host1:5432,host2:5432) the
   * first that takes writes is used; when it stops doing so, they are asked again.
   */
  readonly url?: string | undefined;
  /** Your own Pool (or one connected Client) of pg. It is not closed with the store. */
  readonly pool?: PgPool | PgClient | undefined;
  /** Your own instance of postgres.js. It is not closed with the store. */
  readonly sql?: PostgresJs | undefined;
  /** Which library opens the url. @default pg where it is installed, else postgres */
  readonly library?: LibraryName | undefined;
  /** All processes that compete must name the same. @default "tenure" */
  readonly schema?: string | undefined;
  /** Whether a missing schema is made; needs the right to create. Off: run migrationSql() yourself. @default true */
  readonly createSchema?: boolean | undefined;
  /**
   * How waiters are woken. On: one more connection per process that waits. Off: they look ten times a second. A URL: that
   * connection goes there, past a pooler in transaction mode, which would swallow the notifications. @default true
   */
  readonly listen?: boolean | string | undefined;
  /** After this many milliseconds an unreachable server is an error instead of a hanging start. @default 10_000 */
  readonly connectLimitMs?: number | undefined;
}

const POSTGRES_OPTIONS: OptionNames<PostgresOptions> = {
  url: true,
  pool: true,
  sql: true,
  library: true,
  schema: true,
  createSchema: true,
  listen: true,
  connectLimitMs: true,
};
const CONNECT_LIMIT_MS = 10_000;

export function postgresStore(options: PostgresOptions): OpenStore {
  checkOptionNames("postgresStore()", options, POSTGRES_OPTIONS);
  const { url, pool, sql, library, listen = true, createSchema = true } = options ?? {};
  if ([url, pool, sql].filter((target) => target !== undefined).length !== 1) {
    throw new InvalidArgumentError(
      'postgresStore() needs exactly one of url ("postgres://host/database"), pool (of pg) and sql (of postgres.js).',
    );
  }
  const schema = checkSchema(options.schema ?? "tenure");
  const connectLimitMs = options.connectLimitMs ?? CONNECT_LIMIT_MS;
  checkClients({ pool, sql });
  if (url !== undefined) checkUrl(url);
  const listenUrl = typeof listen === "string" ? oneHostUrlOf(listen, "`listen`").url : undefined;
  return async (parts) => {
    const giveUpAt = parts.clock.now() + connectLimitMs;
    const asked = { url, pool, sql, library, listenUrl, connectLimitMs };
    const link = await openLink(asked, parts.clock);
    const settings = { schema, createSchema, listens: listen !== false, giveUpAt };
    return openOnLink(link, settings, parts);
  };
}
