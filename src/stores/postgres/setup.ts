// Opens the store on a link. Every check that is possible before the first lease is made here, and
// each failure says what to do. The schema is created only if it is missing, so that a role without
// the privilege to create can use an existing one. The simulator opens its stores here.

import type { PgLink } from "../../clients/postgres/link.ts";
import { closeInTime, Requests } from "../../clients/postgres/requests.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import type { Store, StoreParts } from "../contract.ts";
import { migrationSql, SCHEMA_VERSION } from "./schema.ts";
import { PostgresStore } from "./store.ts";

const OLDEST = 130_000;

export const SERVER = `
  SELECT current_setting('server_version_num') AS version, current_setting('server_version') AS shown,
    pg_is_in_recovery()::text AS standby, current_setting('transaction_read_only') AS readonly,
    getdatabaseencoding() AS encoding, current_setting('fsync') AS fsync,
    (EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = '{schema}' AND c.relname = 'meta'))::text AS present, $1::text AS asked`;

export const VERSION =
  'SELECT version::text AS version FROM "{schema}".meta WHERE only_row = $1::text::boolean';

export interface OpenSettings {
  readonly schema: string;
  readonly createSchema: boolean;
  readonly listens: boolean;
  /** When opening has failed, by the clock of the store. */
  readonly giveUpAt: number;
}

/** The link is closed with the store, also if opening fails. */
export async function openOnLink(
  link: PgLink,
  settings: OpenSettings,
  parts: StoreParts,
): Promise<Store> {
  const { clock, random } = parts;
  const { schema, giveUpAt, listens } = settings;
  const requests = new Requests({ link, clock, random, schema });
  try {
    const leftMs = (): number => Math.max(1, giveUpAt - clock.now());
    const durable = await setUp(requests, { ...settings, address: link.address, leftMs });
    return new PostgresStore({ link, requests, listens, durable }, parts);
  } catch (error) {
    await closeInTime(link, clock);
    throw error;
  }
}

interface SetUpOptions extends OpenSettings {
  readonly address: string;
  /** What is left of the time for all of it. */
  leftMs(): number;
}

/** Whether what the server has committed survives a crash of its host. */
async function setUp(requests: Requests, options: SetUpOptions): Promise<boolean> {
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
  return server.fsync === "on";
}

async function checkVersion(requests: Requests, { schema, leftMs }: SetUpOptions): Promise<void> {
  const [row] = await requests.run(VERSION, ["true"], leftMs());
  const version = Number(row?.version);
  if (version === SCHEMA_VERSION) return;
  if (version > SCHEMA_VERSION) {
    throw new StoreUnusableError(
      `The schema "${schema}" was created by a newer Tenure (version ${version}, this one knows ${SCHEMA_VERSION}). It was not changed. Upgrade Tenure here too.`,
    );
  }
  throw new StoreUnusableError(
    version > 0
      ? `The schema "${schema}" has version ${version}; this Tenure needs ${SCHEMA_VERSION}. It was not changed. Run migrationSql({ prefix: "${schema}" }).`
      : `The schema "${schema}" is not one of Tenure, or incomplete. It was not changed. Name another prefix, or run migrationSql().`,
  );
}
