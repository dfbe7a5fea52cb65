// From a URL, or a store made by hand, to a Tenure. The only place of the library where the real clock and randomness
// are handed in. Stores are loaded when they are asked for, so that nobody pays for one they do not use.

import { mistakeIn } from "./clients/shared/url-mistakes.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import { checkOptionNames, type OptionNames } from "./core/options.ts";
import { type AcquireOptions, checkOptions } from "./holder/leases.ts";
import { defaultHolderId, systemParts, warn } from "./runtime/system.ts";
import type { OpenStore } from "./stores/contract.ts";
import type { MemoryBackend } from "./stores/memory/index.ts";
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

export const CONNECT_OPTIONS: OptionNames<ConnectOptions> = {
  holderId: true,
  defaults: true,
  keepProcessAlive: true,
};

/**
 * `sqlite:./tenure.db`: all processes of this machine, through one file. `postgres://user@host/database`: all that reach
 * that database; of several hosts (`host1:5432,host2:5432`) the one that is primary is used; `?schema=name`,
 * `?create-schema=0` and `?listen=0` are ours, the rest is the client library's. `redis://user:password@host:6379` (or
 * `rediss://`): all that reach this server, `redis://host1,host2?cluster=1` this cluster, `redis+sentinel://host1,host2/name`
 * the master of that name; `?prefix=`, `?replicas=` and `?library=` as in redisStore(). `etcd://user:password@h1:2379,h2:2379/prefix`
 * (or `etcds://`): all that reach this cluster; `?connect-ms=` and, for TLS, the files `?ca=`, `?cert=` and `?key=`.
 * `zookeeper://user:password@h1:2181,h2:2181/root`: all that reach this ensemble; `?tick-ms=` and `?connect-ms=` as in
 * zookeeperStore(). `memory:`: this process alone; `memory:name` is shared by everyone in it who uses that name. Or a store:
 * `connect(sqliteStore({ ... }))`.
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
  const mistake = mistakeIn(url);
  const scheme =
    typeof url === "string" ? /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase() : undefined;
  // The text is not shown: it may contain a password.
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
