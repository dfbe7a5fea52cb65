// The public entry of the Redis store: its options and the function that makes it. The store itself
// is in store.ts.

import type {
  IoredisClient,
  NodeRedisClient,
  RedisClient,
  RedisLibraryName,
} from "../../clients/redis/wire.ts";
import type { OpenStore } from "../contract.ts";
import { connectWire, openOnWire } from "./open.ts";
import { checkRedisOptions, type RedisOptions } from "./options.ts";

export type { IoredisClient, NodeRedisClient, RedisClient, RedisLibraryName, RedisOptions };

/** A store on Redis (6.2 or newer) or Valkey: one server, a Sentinel group or a cluster. */
export function redisStore(options: RedisOptions): OpenStore {
  const settings = checkRedisOptions(options);
  return (parts) => openOnWire(settings, parts, () => connectWire(settings));
}
