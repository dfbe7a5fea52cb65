// Opening the store: every check that can be made before the first lease, each with an answer that says what to do. The schema
// is made only where it is missing, so that a role without the right to create can use one that is there.

import type { Requests } from "../../clients/postgres/requests.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import { migrationSql, SCHEMA_VERSION } from "./schema.ts";

export interface Server {
  /** Whether what it has committed survives a crash of its host. */
  readonly durable: boolean;
}

const OLDEST = 130_000;

export const SERVER = `
  SELECT current_setting('server_version_num') AS version, current_setting('server_version') AS shown,
    pg_is_in_recovery()::text AS standby, current_setting('transaction_read_only') AS readonly,
    getdatabaseencoding() AS encoding, current_setting('fsync') AS fsync,
    (EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = '{schema}' AND c.relname = 'meta'))::text AS present, $1::text AS asked`;

export const VERSION =
  'SELECT version::text AS version FROM "{schema}".meta WHERE only_row = $1::text::boolean';

export interface SetUpOptions {
  readonly schema: string;
  readonly createSchema: boolean;
  readonly address: string;
  /** What is left of the time for all of it. */
  leftMs(): number;
}

export async function setUp(requests: Requests, options: SetUpOptions): Promise<Server> {
  const { schema, createSchema, address, leftMs } = options;
  const server = await requests.row(SERVER, [schema], leftMs());
  if (Number(server.version) < OLDEST) {
    throw new StoreUnusableError(
      `PostgreSQL at ${address} is version ${server.shown}; Tenure needs 13 or newer.`,
    );
  }
  if (server.standby === "true") {
    throw new StoreUnusableError(
      `PostgreSQL at ${address} is a standby and cannot grant leases. Name the primary's host in the URL.`,
    );
  }
  if (server.readonly === "on") {
    throw new StoreUnusableError(
      `PostgreSQL at ${address} lets this role only read: default_transaction_read_only is on. Turn it off for the role or the database.`,
    );
  }
  if (server.encoding !== "UTF8") {
    throw new StoreUnusableError(
      `The database at ${address} has the encoding ${server.encoding}; Tenure needs UTF8, so that every resource has one name.`,
    );
  }
  if (server.present !== "true") {
    if (!createSchema) {
      throw new StoreUnusableError(
        `The schema "${schema}" is not in the database at ${address}. Run migrationSql({ prefix: "${schema}" }), or set createSchema: true.`,
      );
    }
    const limitMs = leftMs();
    const lockTimeout = `SELECT set_config('lock_timeout', '${Math.ceil(limitMs)}', true);`;
    await requests.run(`${lockTimeout}\n${migrationSql({ prefix: schema })}`, [], limitMs);
  }
  await checkVersion(requests, options);
  return { durable: server.fsync === "on" };
}

async function checkVersion(requests: Requests, { schema, leftMs }: SetUpOptions): Promise<void> {
  const [row] = await requests.run(VERSION, ["true"], leftMs());
  const version = Number(row?.version);
  if (version === SCHEMA_VERSION) return;
  throw new StoreUnusableError(
    version > SCHEMA_VERSION
      ? `The schema "${schema}" was made by a newer Tenure (version ${version}, this one knows ${SCHEMA_VERSION}). It was not touched. Upgrade Tenure here too.`
      : `The schema "${schema}" is not one of Tenure, or incomplete. It was not touched. Name another prefix, or run migrationSql().`,
  );
}
