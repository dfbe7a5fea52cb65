// connect(): opens the store that a URL or a store function names, and builds a Tenure on it with
// the real clock and real randomness. A store's code is loaded only when a URL asks for it.

import { mistakeIn } from "./clients/shared/url-mistakes.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import { checkOptionNames, type OptionNames } from "./core/options.ts";
import { type AcquireOptions, checkDefaults } from "./holder/options.ts";
import { defaultHolderId, systemParts, warn } from "./runtime/system.ts";
import type { OpenStore } from "./stores/contract.ts";
import type { MemoryBackend } from "./stores/memory/index.ts";
import { createTenure, type Tenure } from "./tenure.ts";

/** Options of connect(). */
export interface ConnectOptions {
  /**
   * The name of this process in listings and messages. Need not be unique. @default hostname/pid
   */
  readonly holderId?: string | undefined;
  /** Defaults for the options of acquire(): ttlMs, waitMs, whileInDoubt and the others. */
  readonly defaults?: AcquireOptions | undefined;
  /**
   * Whether held leases keep the process alive. If false, a process with nothing else to do exits,
   * and its leases expire with their ttl. @default false
   */
  readonly keepProcessAlive?: boolean | undefined;
}

export const CONNECT_OPTIONS: OptionNames<ConnectOptions> = {
  holderId: true,
  defaults: true,
  keepProcessAlive: true,
};

/**
 * Connects to a store, given as a URL or as a store function such as `sqliteStore({ ... })`.
 *
 * - `sqlite:./tenure.db`: shared by all processes of this machine that use the file.
 * - `postgres://user@host/database`: of several hosts (`host1:5432,host2:5432`) the primary is
 *   used. `?schema=name`, `?create-schema=0` and `?listen=0` are for Tenure; other parameters are
 *   passed to the client library.
 * - `redis://user:password@host:6379` (or `rediss://`): one server.
 *   `redis://host1,host2?cluster=1`: a cluster. `redis+sentinel://host1,host2/name`: the master of
 *   that name. `?prefix=`, `?replicas=` and `?library=` as in redisStore().
 * - `etcd://user:password@h1:2379,h2:2379/prefix` (or `etcds://`): `?connect-ms=` and, for TLS, the
 *   files `?ca=`, `?cert=` and `?key=`.
 * - `zookeeper://user:password@h1:2181,h2:2181/root`: `?tick-ms=` and `?connect-ms=` as in
 *   zookeeperStore().
 * - `memory:`: this connection alone. `memory:name`: shared within this process under that name.
 */
export async function connect(
  target: string | OpenStore,
  options: ConnectOptions = {},
): Promise<Tenure> {
  checkOptionNames("connect()", options, CONNECT_OPTIONS);
  const {
    holderId = defaultHolderId(),
    defaults = {},
    keepProcessAlive: keepAlive = false,
  } = options;
  // Before the store is opened: an invalid number must not leave a new file behind.
  checkDefaults(holderId, defaults);
  const open = typeof target === "function" ? target : await fromUrl(target);
  const parts = systemParts();
  const store = await open(parts);
  return createTenure({
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

/** The store that a URL names, not opened yet. */
export async function fromUrl(url: unknown): Promise<OpenStore> {
  const mistake = mistakeIn(url);
  const scheme =
    typeof url === "string" ? /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase() : undefined;
  // The message does not quote the URL, which may contain a password.
  if (typeof url !== "string" || scheme === undefined || mistake !== undefined) {
    throw new InvalidArgumentError(
      `Expected a store URL such as "sqlite:./tenure.db" or "redis://localhost:6379". ${mistake ?? "The text does not begin with a scheme."}`,
    );
  }
  const rest = url.slice(scheme.length + 1);
  switch (scheme) {
    case "memory":
      return memoryByName(rest);
    case "sqlite": {
      const { sqliteStore } = await import("./stores/sqlite/index.ts");
      const { sqliteOptionsOf } = await import("./stores/sqlite/url.ts");
      return sqliteStore(sqliteOptionsOf(rest));
    }
    case "postgres":
    case "postgresql": {
      const { postgresStore } = await import("./stores/postgres/index.ts");
      const { postgresOptionsOf } = await import("./clients/postgres/url.ts");
      return postgresStore(postgresOptionsOf(url));
    }
    case "redis":
    case "rediss":
    case "redis+sentinel":
    case "rediss+sentinel": {
      const { redisStore } = await import("./stores/redis/index.ts");
      const { redisOptionsOf } = await import("./clients/redis/url.ts");
      return redisStore(redisOptionsOf(url));
    }
    case "etcd":
    case "etcds": {
      const { etcdStore } = await import("./stores/etcd/index.ts");
      const { etcdOptionsOf } = await import("./clients/etcd/url.ts");
      return etcdStore(etcdOptionsOf(url));
    }
    case "zookeeper": {
      const { zookeeperStore } = await import("./stores/zookeeper/index.ts");
      const { zookeeperOptionsOf } = await import("./clients/zookeeper/url.ts");
      return zookeeperStore(zookeeperOptionsOf(url));
    }
    default:
      throw new InvalidArgumentError(
        "Tenure has no store for this scheme (the text before the first colon). Known are sqlite:, postgres:, redis:, rediss:, etcd:, etcds:, zookeeper: and memory:. Check the spelling, or pass a store.",
      );
  }
}

async function memoryByName(name: string): Promise<OpenStore> {
  const { MemoryBackend, memoryStore } = await import("./stores/memory/index.ts");
  if (name === "") return memoryStore();
  const backend = sharedMemory.get(name) ?? new MemoryBackend();
  sharedMemory.set(name, backend);
  return memoryStore(backend);
}
