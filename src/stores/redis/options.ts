// What a user may say about the store, in terms of what follows from it. Checked before anything is connected.

import { placeOf } from "../../clients/redis/url.ts";
import type { LibraryName, RedisClient, Wire } from "../../clients/redis/wire.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { namesOf } from "./names.ts";
import type { OpenSettings } from "./open.ts";

export interface RedisOptions {
  /**
   * `redis://user:password@host:6379/0`, or `rediss://` for TLS; `redis://host1,host2?cluster=1` for a cluster;
   * `redis+sentinel://host1:26379,host2/master` for a master that Sentinels know. The store makes its own connections.
   */
  readonly url?: string | undefined;
  /**
   * Your own client instead: ioredis (also Sentinel or Cluster) or node-redis, connected. Commands share it; messages
   * get a copy of it. If its link dies in silence only its own settings notice. It is not closed by `close()`.
   */
  readonly client?: RedisClient | undefined;
  /** Which library makes the connections for `url`. @default ioredis where it is installed, else redis */
  readonly library?: LibraryName | undefined;
  /** For `rediss://`: what tls.connect() takes, such as `{ ca }` for a certificate of your own. */
  readonly tls?: object | undefined;
  /** Names begin with it. All processes that compete must use the same one: two prefixes are two worlds. @default tenure */
  readonly prefix?: string | undefined;
  /**
   * Grants and renewals count only when so many replicas have them (WAIT). Narrows what a failover can lose, does not
   * close it; with fewer replicas alive nothing is granted. Costs the way to the replica. @default 0
   */
  readonly replicas?: number | undefined;
  /**
   * Connecting and inspecting the server fails after this long, in milliseconds. Too small: a slow
   * start of the server looks like an outage. Too large: a wrong address is noticed late. @default 5,000
   */
  readonly connectMs?: number | undefined;
  /** Told, at connect, what the server's settings put at risk. `guarantees` says the same. @default nobody */
  readonly onWarning?: ((text: string) => void) | undefined;
  /** @internal Instead of `url` and `client`: for the simulator, which has connections of its own. */
  readonly wire?: (() => Promise<Wire>) | undefined;
}

const REDIS_OPTIONS: OptionNames<RedisOptions> = {
  url: true,
  client: true,
  library: true,
  tls: true,
  prefix: true,
  replicas: true,
  connectMs: true,
  onWarning: true,
  wire: "internal",
};

export function settingsOf(options: RedisOptions): OpenSettings {
  checkOptionNames("redisStore()", options, REDIS_OPTIONS);
  const { url, client, library, tls, prefix = "tenure", replicas = 0, connectMs = 5_000 } = options;
  if (options.wire === undefined && (url === undefined) === (client === undefined)) {
    throw new InvalidArgumentError(
      'redisStore() needs either { url: "redis://localhost:6379" } or { client }, not both.',
    );
  }
  if (!Number.isInteger(replicas) || replicas < 0)
    throw new InvalidArgumentError("`replicas` must be a whole number, 0 or more.");
  if (!(connectMs > 0 && connectMs < 2 ** 31))
    throw new InvalidArgumentError("`connectMs` must be a number of milliseconds above 0.");
  const place = url === undefined ? undefined : placeOf(url);
  const names = namesOf(prefix);
  const onWarning = options.onWarning ?? (() => undefined);
  const { wire } = options;
  return { place, client, wire, library, tls, names, replicas, connectMs, onWarning };
}
