// The public entry of the Redis store: its options and the function that makes it. Invalid options
// are rejected before anything is connected. The store itself is in store.ts.

import type { ConnectionOptions } from "node:tls";
import { parseRedisUrl } from "../../clients/redis/url.ts";
import {
  type IoredisClient,
  LIBRARIES,
  type NodeRedisClient,
  type RedisClient,
  type RedisLibraryName,
} from "../../clients/redis/wire.ts";
import {
  checkClientOptions,
  checkLibraryName,
  checkLogin,
  checkMilliseconds,
  checkUrlOrClient,
  DEFAULT_CONNECT_MS,
  mergeUrlOptions,
} from "../../clients/shared/options.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import type { OpenStore } from "../contract.ts";
import { namesOf } from "./names.ts";
import { type ConnectSettings, connectWire, openOnWire } from "./open.ts";

export type { IoredisClient, NodeRedisClient, RedisClient, RedisLibraryName };

/** Options of redisStore(). */
export interface RedisOptions {
  /**
   * `redis://user:password@host:6379/0`, or `rediss://` for TLS; `redis://host1,host2?cluster=1`
   * for a cluster; `redis+sentinel://host1:26379,host2/master` for a master that Sentinels know.
   * The store makes its own connections. User, password, `?prefix=`, `?library=`, `?replicas=` and
   * `?connect-ms=` may be in the URL or in these options. Exactly one of `url` and `client`.
   */
  readonly url?: string | undefined;
  /**
   * Your own connected client of ioredis (also Sentinel or Cluster) or node-redis. The store sends
   * its commands on it and opens a duplicate of it for messages. The store cannot replace it when
   * its connection stops responding; only the client's own settings can. `close()` leaves it open.
   */
  readonly client?: RedisClient | undefined;
  /** The library that connects to `url`. @default "ioredis" if it is installed, else "redis" */
  readonly library?: RedisLibraryName | undefined;
  /** The user for `url`. @default the user "default" of Redis */
  readonly username?: string | undefined;
  /** The password for `url`. @default none */
  readonly password?: string | undefined;
  /** For `rediss://`: the options of tls.connect(), such as `{ ca }` for your own certificate. */
  readonly tls?: ConnectionOptions | undefined;
  /**
   * The namespace: all keys and channels begin with it. All competing processes must use the same
   * one. @default "tenure"
   */
  readonly prefix?: string | undefined;
  /**
   * Grants and renewals count only after this many replicas have them (WAIT). Reduces what a
   * failover can lose, but does not rule it out. With fewer live replicas nothing is granted. Each
   * request takes longer by a round trip to the replica. @default 0
   */
  readonly replicas?: number | undefined;
  /**
   * How long opening the store may take, in milliseconds. Too small: a slow start of the server
   * looks like an outage. Too large: a wrong address is noticed late. @default 5000
   */
  readonly connectMs?: number | undefined;
  /**
   * Receives, when the store is opened, the risks in the server's settings. `guarantees` contains
   * the same. @default process.emitWarning
   */
  readonly onWarning?: ((text: string) => void) | undefined;
}

const REDIS_OPTIONS: OptionNames<RedisOptions> = {
  url: true,
  client: true,
  library: true,
  username: true,
  password: true,
  tls: true,
  prefix: true,
  replicas: true,
  connectMs: true,
  onWarning: true,
};

/** A store on Redis (6.2 or newer) or Valkey: one server, a Sentinel group or a cluster. */
export function redisStore(options: RedisOptions): OpenStore {
  const settings = checkRedisOptions(options);
  return (parts) => openOnWire(settings, parts, () => connectWire(settings));
}

function checkRedisOptions(options: RedisOptions): ConnectSettings {
  const call = "redisStore()";
  checkOptionNames(call, options, REDIS_OPTIONS);
  checkUrlOrClient(call, options, "redis://localhost:6379");
  checkClientOptions(call, options, ["library", "username", "password", "tls"]);
  checkLogin(options);
  const { client, username, password, tls, onWarning } = options;
  const login = { ...(username && { username }), ...(password && { password }) };
  const url = client === undefined ? parseRedisUrl(options.url, login) : undefined;
  const merged = mergeUrlOptions<CheckedLater>(call, options, url?.options ?? {});
  const { prefix = "tenure", replicas = 0, connectMs = DEFAULT_CONNECT_MS } = merged;
  if (!Number.isInteger(replicas) || replicas < 0)
    throw new InvalidArgumentError("`replicas` must be a whole number, 0 or more.");
  checkMilliseconds("connectMs", connectMs);
  return {
    place: url?.place,
    client,
    library: checkLibraryName(merged.library, LIBRARIES),
    tls,
    names: namesOf(prefix),
    replicas,
    connectMs,
    onWarning,
  };
}

/** The text of a URL is not known to be the name of a library yet. */
type CheckedLater = Omit<RedisOptions, "library"> & { readonly library?: string | undefined };
