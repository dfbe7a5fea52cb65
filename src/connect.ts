// From a URL, or a store made by hand, to a Tenure. The only place of the library where the real clock and randomness
// are handed in. Stores are loaded when they are asked for, so that nobody pays for one they do not use.

import { InvalidArgumentError } from "./core/errors.ts";
import { type AcquireOptions, checkOptions } from "./holder/leases.ts";
import { defaultHolderId, systemParts, warn } from "./runtime/system.ts";
import type { MemoryBackend } from "./stores/memory.ts";
import type { RedisOptions } from "./stores/redis.ts";
import type { OpenStore } from "./stores/store.ts";
import { Tenure } from "./tenure.ts";

export interface ConnectOptions {
  /** Who this process is to a person who looks. Need not be unique. @default hostname/pid */
  readonly holderId?: string | undefined;
  /** Used where a call does not say otherwise: ttlMs, waitMs, whileInDoubt and the other options of acquire(). */
  readonly defaults?: AcquireOptions | undefined;
  /**
   * Whether held leases keep the process from exiting by itself. Off: a process with nothing else to do exits, and its
   * leases end with their ttl. @default false
   */
  readonly keepProcessAlive?: boolean | undefined;
}

/**
 * `sqlite:./tenure.db`: all processes of this machine, through one file. `postgres://user@host/database`: all that reach
 * that database; `?schema=name`, `?create-schema=0` and `?listen=0` are ours, the rest is the client library's.
 * `redis://user:password@host:6379` (or `rediss://`): all that reach this server; `?prefix=`, `?replicas=` and `?library=`
 * as in redisStore(). `memory:`: this process alone; `memory:name` is shared by everyone in it who uses that name. Or a store:
 * `connect(sqliteStore({ ... }))`.
 */
export async function connect(
  target: string | OpenStore,
  options: ConnectOptions = {},
): Promise<Tenure> {
  const {
    holderId = defaultHolderId(),
    defaults = {},
    keepProcessAlive: keepAlive = false,
  } = options;
  // Before the store is opened: a bad number must not leave a file behind.
  checkOptions({ holderId, defaults });
  const open = typeof target === "function" ? target : await fromUrl(target);
  const parts = systemParts();
  const store = await open(parts);
  return new Tenure({
    store,
    clock: parts.clock,
    random: parts.random,
    holderId,
    defaults,
    keepAlive,
    warn,
  });
}

const sharedMemory = new Map<string, MemoryBackend>();

/** What a store URL stands for, not opened yet. */
export async function fromUrl(url: unknown): Promise<OpenStore> {
  const scheme =
    typeof url === "string" ? /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase() : undefined;
  if (typeof url !== "string" || scheme === undefined) {
    throw new InvalidArgumentError(
      `Expected a store URL such as "sqlite:./tenure.db" or "memory:", got ${JSON.stringify(url)}.`,
    );
  }
  const rest = url.slice(scheme.length + 1);
  switch (scheme) {
    case "memory":
      return memoryByName(rest);
    case "sqlite": {
      const { sqliteStore } = await import("./stores/sqlite.ts");
      return sqliteStore(sqliteOptions(rest));
    }
    case "postgres":
    case "postgresql": {
      const { postgresStore } = await import("./stores/postgres.ts");
      return postgresStore(postgresOptions(url));
    }
    case "redis":
    case "rediss": {
      const { redisStore } = await import("./stores/redis.ts");
      return redisStore(redisOptions(url));
    }
    default:
      throw new InvalidArgumentError(
        `Tenure has no store for "${scheme}:". Known are sqlite:, postgres:, redis:, rediss: and memory:. Check the spelling, or pass a store.`,
      );
  }
}

async function memoryByName(name: string): Promise<OpenStore> {
  const { MemoryBackend, memoryStore } = await import("./stores/memory.ts");
  if (name === "") return memoryStore();
  const backend = sharedMemory.get(name) ?? new MemoryBackend();
  sharedMemory.set(name, backend);
  return memoryStore(backend);
}

function sqliteOptions(rest: string): { file: string; allowNetworkFileSystem: boolean } {
  const [path = "", query = ""] = rest.split("?", 2);
  const file = path.startsWith("//") ? path.slice(2) : path;
  if (file === "" || file === ":memory:") {
    throw new InvalidArgumentError(
      'A sqlite: URL needs a file, e.g. "sqlite:./tenure.db". For a store inside this process use "memory:".',
    );
  }
  const settings = new URLSearchParams(query);
  for (const name of settings.keys()) {
    if (name !== "allow-network-file-system") {
      throw new InvalidArgumentError(
        `A sqlite: URL has no setting "${name}"; known is allow-network-file-system=1.`,
      );
    }
  }
  const allow = settings.get("allow-network-file-system") ?? "0";
  if (allow !== "0" && allow !== "1") {
    throw new InvalidArgumentError(
      `allow-network-file-system in a sqlite: URL is 1 or 0, got ${JSON.stringify(allow)}.`,
    );
  }
  return { file, allowNetworkFileSystem: allow === "1" };
}

/** Our settings are taken out of the URL: the client libraries would pass them on to the server, which knows none. */
function postgresOptions(url: string): {
  url: string;
  schema: string | undefined;
  createSchema: boolean;
  listen: boolean;
} {
  const [place = "", query = ""] = url.split("?", 2);
  const settings = new URLSearchParams(query);
  const take = (name: string): string | undefined => {
    const value = settings.get(name) ?? undefined;
    settings.delete(name);
    return value;
  };
  const schema = take("schema");
  const createSchema = take("create-schema") !== "0";
  const listen = take("listen") !== "0";
  const rest = settings.toString();
  return { url: rest === "" ? place : `${place}?${rest}`, schema, createSchema, listen };
}

function redisOptions(text: string): RedisOptions {
  if (!URL.canParse(text)) {
    throw new InvalidArgumentError(
      'A redis: URL needs a host, e.g. "redis://user:password@localhost:6379/0".',
    );
  }
  const url = new URL(text);
  const { prefix, replicas, library, ...others } = Object.fromEntries(url.searchParams);
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw new InvalidArgumentError(
      `A redis: URL has no setting "${unknown}"; known are prefix, replicas and library.`,
    );
  }
  if (library !== undefined && library !== "ioredis" && library !== "redis") {
    throw new InvalidArgumentError('`library` in a redis: URL is "ioredis" or "redis".');
  }
  url.search = "";
  return {
    url: url.href,
    prefix,
    library,
    replicas: replicas === undefined ? undefined : Number(replicas),
  };
}
