// Opens a link from what the user passed: a URL, a pool or client of pg, or an instance of
// postgres.js. The libraries are optional peers and are imported here, when the store is opened.
// The error for a missing one names the command that installs it.

import type { Clock } from "../../async/clock.ts";
import { InvalidArgumentError, StoreUnusableError } from "../../core/errors.ts";
import { findFault } from "../shared/libraries.ts";
import { missingLibrary } from "../shared/missing-library.ts";
import { linkFromHosts } from "./hosts.ts";
import type { PgLink } from "./link.ts";
import {
  linkFromClient,
  linkFromPool,
  linkFromUrl,
  type PgClient,
  type PgLibrary,
  type PgPool,
} from "./pg-link.ts";
import {
  type PostgresJs,
  type PostgresJsLibrary,
  sqlFromUrl,
  sqlFromUser,
} from "./postgresjs-link.ts";
import type { HostUrl } from "./url.ts";

/** The package that connects to PostgreSQL, by its name in npm. */
export type PostgresLibraryName = "pg" | "postgres";

/** In the order in which they are tried. */
export const LIBRARIES: readonly PostgresLibraryName[] = ["pg", "postgres"];

/** A Pool or a connected Client of pg, or an instance of postgres.js. */
export type PostgresClient = PgPool | PgClient | PostgresJs;

export interface LinkOptions {
  readonly hosts: readonly HostUrl[];
  readonly client: PostgresClient | undefined;
  readonly library: PostgresLibraryName | undefined;
  readonly listenUrl: string | undefined;
  readonly connectMs: number;
}

const INSTALL = { pg: "npm install pg@8", postgres: "npm install postgres@3" } as const;

export async function openLink(options: LinkOptions, clock: Clock): Promise<PgLink> {
  const { hosts: urls, client, listenUrl, connectMs } = options;
  if (client !== undefined) return linkFromUser(client, listenUrl);
  const loaded = await loadLibrary(options.library);
  // Each host gets its share of the time, so that a silent one does not use up that of the others.
  const shareMs = connectMs / urls.length;
  const open = ({ url: target, address }: HostUrl): PgLink => {
    const settings = { url: target, address, connectMs: shareMs, listenUrl };
    return loaded.name === "pg"
      ? linkFromUrl(loaded.library, settings)
      : sqlFromUrl(loaded.library, settings);
  };
  const [only, ...others] = urls;
  if (only !== undefined && others.length === 0) return open(only);
  const hosts = urls.map((host) => ({ address: host.address, open: () => open(host) }));
  return linkFromHosts(hosts, clock, shareMs);
}

async function linkFromUser(
  client: PostgresClient,
  listenUrl: string | undefined,
): Promise<PgLink> {
  if (isPostgresJs(client))
    return sqlFromUser(client, await loadPostgresJs().catch(() => undefined), listenUrl);
  const library = listenUrl === undefined ? undefined : await loadPg();
  return isPool(client)
    ? linkFromPool(client, library, listenUrl)
    : linkFromClient(client, library, listenUrl);
}

function isPool(pool: unknown): pool is PgPool {
  const { connect, totalCount } = (pool ?? {}) as Partial<PgPool>;
  return typeof connect === "function" && typeof totalCount === "number";
}

function isClient(client: unknown): client is PgClient {
  const { query, on } = (client ?? {}) as Partial<PgClient>;
  return typeof query === "function" && typeof on === "function";
}

function isPostgresJs(client: unknown): client is PostgresJs {
  return typeof (client as Partial<PostgresJs> | null)?.unsafe === "function";
}

/** Does not show the value: it may be a URL with a password. */
export function checkClient(client: unknown): void {
  if (isPostgresJs(client) || isPool(client) || isClient(client)) return;
  throw new InvalidArgumentError(
    "postgresStore() takes as `client` a Pool or a connected Client of pg, or an instance of postgres.js. " +
      "The pool inside Knex is not a Pool of pg: create one. Pass a URL as `url`.",
  );
}

type Loaded =
  | { readonly name: "pg"; readonly library: PgLibrary }
  | { readonly name: "postgres"; readonly library: PostgresJsLibrary };

/** The named one, or the first that is installed. */
export async function loadLibrary(wanted?: PostgresLibraryName): Promise<Loaded> {
  const order: readonly PostgresLibraryName[] = wanted === undefined ? LIBRARIES : [wanted];
  const failures: unknown[] = [];
  for (const name of order) {
    try {
      const loaded: Loaded =
        name === "pg"
          ? { name, library: await loadPg() }
          : { name, library: await loadPostgresJs() };
      refuseUnsupported(name);
      return loaded;
    } catch (error) {
      failures.push(error);
    }
  }
  const unsupported = failures.find((error) => error instanceof StoreUnusableError);
  if (unsupported !== undefined) throw unsupported;
  throw missingLibrary({
    backend: "PostgreSQL",
    tried: order,
    install: `Run ${order.map((name) => `\`${INSTALL[name]}\``).join(" or ")}.`,
    instead: "postgresStore({ client })",
    cause: failures[0],
  });
}

function refuseUnsupported(name: PostgresLibraryName): void {
  const fault = findFault(name);
  if (fault !== undefined) throw new StoreUnusableError(fault);
}

async function loadPg(): Promise<PgLibrary> {
  // In a variable, because the types of an optional peer may be missing.
  const specifier: string = "pg";
  return ((await import(specifier)) as { default: PgLibrary }).default;
}

async function loadPostgresJs(): Promise<PostgresJsLibrary> {
  const specifier: string = "postgres";
  return ((await import(specifier)) as { default: PostgresJsLibrary }).default;
}
