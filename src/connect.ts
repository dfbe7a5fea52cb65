// connect(): opens the store that a URL or a store function names, and builds a Tenure on it with
// the real clock and real randomness. A store's code is loaded only when a URL asks for it.

import { findUrlMistake } from "./clients/shared/url-mistakes.ts";
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
 * Opens the store that the URL names, or the given one, such as `connect(sqliteStore({ ... }))`.
 *
 * - `sqlite:./tenure.db`: for all processes of this machine.
 * - `postgres://user:password@host1:5432,host2:5432/database`: uses the host that is primary.
 *   Settings of libpq, such as `?sslmode=`, are passed on.
 * - `redis://user:password@host:6379` or `rediss://`; `redis://host1,host2?cluster=1`;
 *   `redis+sentinel://host1,host2/master`.
 * - `etcd://user:password@host1:2379,host2:2379/prefix` or `etcds://`.
 * - `zookeeper://user:password@host1:2181,host2:2181/prefix`.
 * - `memory:`: for one Tenure; `memory:name`: for all in this process that use the name.
 *
 * `?prefix=`, `?connect-ms=` and `?library=`, and the settings specific to a store, mean the same
 * as the options of its function, such as `redisStore()`.
 */
export async function connect(
  target: string | OpenStore,
  options: ConnectOptions = {},
): Promise<Tenure> {
  checkOptionNames("connect()", options, CONNECT_OPTIONS);
  const { holderId = defaultHolderId(), defaults = {}, keepProcessAlive = false } = options;
  // Before the store is opened: an invalid number must not leave a new file behind.
  checkDefaults(holderId, defaults);
  const open = typeof target === "function" ? target : await fromUrl(target);
  const parts = systemParts();
  const store = await open(parts);
  const { clock, random } = parts;
  const keepAlive = keepProcessAlive;
  return createTenure({ store, clock, random, holderId, defaults, keepAlive, warn });
}

const sharedMemory = new Map<string, MemoryBackend>();

/** The store that a URL names, not opened yet. */
export async function fromUrl(url: unknown): Promise<OpenStore> {
  const mistake = findUrlMistake(url);
  const scheme =
    typeof url === "string" ? /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase() : undefined;
  // The message does not quote the URL, which may contain a password.
  if (typeof url !== "string" || scheme === undefined || mistake !== undefined) {
    throw new InvalidArgumentError(
      `Expected a store URL such as "sqlite:./tenure.db" or "redis://localhost:6379". ${mistake ?? "The text does not begin with a scheme."}`,
    );
  }
  switch (scheme) {
    case "memory":
      return memoryByName(url.slice(scheme.length + 1));
    case "sqlite":
      return (await import("./stores/sqlite/index.ts")).sqliteStore({ url });
    case "postgres":
    case "postgresql":
      return (await import("./stores/postgres/index.ts")).postgresStore({ url });
    case "redis":
    case "rediss":
    case "redis+sentinel":
    case "rediss+sentinel":
      return (await import("./stores/redis/index.ts")).redisStore({ url });
    case "etcd":
    case "etcds":
      return (await import("./stores/etcd/index.ts")).etcdStore({ url });
    case "zookeeper":
      return (await import("./stores/zookeeper/index.ts")).zookeeperStore({ url });
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
