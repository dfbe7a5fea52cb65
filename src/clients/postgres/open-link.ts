// From what the user gave (a URL, a pool or client of pg, an instance of postgres.js) to a link. The libraries are optional peers
// and loaded here, when the store is opened; a missing one is named together with the command that installs it.

import type { Clock } from "../../async/clock.ts";
import { InvalidArgumentError, StoreUnusableError } from "../../core/errors.ts";
import { faultOf } from "../shared/libraries.ts";
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
import { type HostUrl, hostUrlsOf } from "./url.ts";

export type LibraryName = "pg" | "postgres";

export interface LinkOptions {
  readonly url?: string | undefined;
  readonly pool?: PgPool | PgClient | undefined;
  readonly sql?: PostgresJs | undefined;
  readonly library?: LibraryName | undefined;
  readonly listenUrl: string | undefined;
  readonly connectLimitMs: number;
}

const INSTALL = { pg: "npm install pg@8", postgres: "npm install postgres@3" } as const;

export async function openLink(options: LinkOptions, clock: Clock): Promise<PgLink> {
  const { url, pool, sql, listenUrl, connectLimitMs } = options;
  if (pool !== undefined) {
    const library = listenUrl === undefined ? undefined : await loadPg();
    return isPool(pool)
      ? linkFromPool(pool, library, listenUrl)
      : linkFromClient(pool, library, listenUrl);
  }
  if (sql !== undefined)
    return sqlFromUser(sql, await loadPostgresJs().catch(() => undefined), listenUrl);
  if (url === undefined) throw new InvalidArgumentError("postgresStore() needs url, pool or sql.");
  const urls = hostUrlsOf(url);
  const loaded = await loadLibrary(options.library);
  // Each host gets its share of the time: a silent one must not use up that of the others.
  const shareMs = connectLimitMs / urls.length;
  const open = ({ url: target, address }: HostUrl): PgLink => {
    const settings = { url: target, address, connectLimitMs: shareMs, listenUrl };
    return loaded.name === "pg"
      ? linkFromUrl(loaded.library, settings)
      : sqlFromUrl(loaded.library, settings);
  };
  const [only, ...others] = urls;
  if (only !== undefined && others.length === 0) return open(only);
  const hosts = urls.map((host) => ({ address: host.address, open: () => open(host) }));
  return linkFromHosts(hosts, clock, shareMs);
}

function isPool(pool: unknown): pool is PgPool {
  const { connect, totalCount } = (pool ?? {}) as Partial<PgPool>;
  return typeof connect === "function" && typeof totalCount === "number";
}

function isClient(client: unknown): client is PgClient {
  const { query, on } = (client ?? {}) as Partial<PgClient>;
  return typeof query === "function" && typeof on === "function";
}

/** Does not show the value: it may be a URL with a password. */
export function checkClients({ pool, sql }: { pool?: unknown; sql?: unknown }): void {
  if (pool !== undefined && !isPool(pool) && !isClient(pool)) {
    throw new InvalidArgumentError(
      "postgresStore() takes a Pool or a connected Client of pg as `pool`. The pool inside Knex is not a Pool of pg: create one. Pass a URL as `url`.",
    );
  }
  if (sql !== undefined && typeof (sql as Partial<PostgresJs> | null)?.unsafe !== "function") {
    throw new InvalidArgumentError(
      "postgresStore() takes an instance of postgres.js as `sql`. Pass a Pool of pg as `pool`, and a URL as `url`.",
    );
  }
}

type Loaded =
  | { readonly name: "pg"; readonly library: PgLibrary }
  | { readonly name: "postgres"; readonly library: PostgresJsLibrary };

/** The named one, or the first that is installed. */
export async function loadLibrary(wanted?: LibraryName): Promise<Loaded> {
  const order: LibraryName[] = wanted === undefined ? ["pg", "postgres"] : [wanted];
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
    instead: "postgresStore({ pool })",
    cause: failures[0],
  });
}

function refuseUnsupported(name: LibraryName): void {
  const fault = faultOf(name);
  if (fault !== undefined) throw new StoreUnusableError(fault);
}

async function loadPg(): Promise<PgLibrary> {
  // Named through a variable: the types of an optional peer may not be there.
  const specifier: string = "pg";
  return ((await import(specifier)) as { default: PgLibrary }).default;
}

async function loadPostgresJs(): Promise<PostgresJsLibrary> {
  const specifier: string = "postgres";
  return ((await import(specifier)) as { default: PostgresJsLibrary }).default;
}
