// Implements the connection on ioredis. Four of its defaults are changed on our own connections.
// Commands are not queued while offline, so the caller learns at once that nothing was sent. They
// are not sent again, because the caller decides that. Reconnecting never stops, but begins only
// after the first connection has succeeded. A connection that is given up is closed quickly.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { HostPort } from "../shared/url.ts";
import type { ChannelEvents, ChannelWire, IoredisClient, Library, Target, Wire } from "./wire.ts";

/** The longest wait before the next try to reconnect. */
const RETRY_MAX_MS = 1_000;

/**
 * A silent connection does not confirm that it is closed either. By default ioredis waits 2 s for
 * that before it reconnects, which is most of a short ttl. No answer is lost: every request on the
 * connection is answered or has reached its limit.
 */
const DISCONNECT_MS = 20;

const ownSettings = {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  maxRetriesPerRequest: 0,
  commandTimeout: undefined,
  disconnectTimeout: DISCONNECT_MS,
} as const;

interface Ioredis {
  /** Version 5.0 does not export it by name. */
  readonly default: new (
    options: object,
  ) => IoredisClient;
  readonly Cluster: new (nodes: readonly HostPort[], options: object) => IoredisClient;
}

export async function load(): Promise<Library> {
  const specifier: string = "ioredis";
  const library = (await import(specifier)) as Ioredis;
  return {
    connect: async (target: Target) => {
      const make = (retryStrategy: Retry): IoredisClient =>
        makeClient(library, target, retryStrategy);
      return new IoredisWire(await connected(make), true);
    },
  };
}

function makeClient(library: Ioredis, target: Target, retry: Retry): IoredisClient {
  const { default: Redis, Cluster } = library;
  const { place, connectMs } = target;
  const tls = target.tls ?? (place.isTls ? {} : undefined);
  const settings = {
    ...ownSettings,
    connectTimeout: connectMs,
    ...(tls === undefined ? {} : { tls }),
  };
  switch (place.kind) {
    case "server":
      return new Redis({
        ...settings,
        ...place.login,
        ...place.at,
        db: place.db,
        retryStrategy: retry,
      });
    case "sentinel": {
      const { username, password } = place.sentinelLogin;
      return new Redis({
        ...settings,
        ...place.login,
        sentinels: place.hosts,
        name: place.master,
        db: place.db,
        ...(username === undefined ? {} : { sentinelUsername: username }),
        ...(password === undefined ? {} : { sentinelPassword: password }),
        ...(place.isTls ? { sentinelTLS: tls, enableTLSForSentinelMode: true } : {}),
        retryStrategy: retry,
        // Until Sentinels have elected a new master, they name the dead one.
        sentinelRetryStrategy: retry,
      });
    }
    case "cluster":
      return new Cluster(place.hosts, {
        lazyConnect: true,
        enableOfflineQueue: false,
        clusterRetryStrategy: retry,
        slotsRefreshTimeout: connectMs,
        redisOptions: { ...settings, ...place.login },
        // A certificate names hosts, not addresses.
        ...(place.isTls ? { dnsLookup: keepHost } : {}),
      });
  }
}

function keepHost(host: string, found: (error: null, address: string) => void): void {
  found(null, host);
}

/** A user's client: it sends our commands, and a duplicate receives messages. */
export function ioredisWire(client: IoredisClient): Wire {
  const { options } = client as { options?: { keyPrefix?: string } };
  if (options?.keyPrefix) {
    throw new InvalidArgumentError(
      `The client adds keyPrefix "${options.keyPrefix}" to the keys it sees, and scripts use more. Pass a client without it, and \`prefix\` to redisStore().`,
    );
  }
  return new IoredisWire(client, false);
}

type Retry = (times: number) => number | undefined;

/** Connects once, and throws the cause of a failure. Later interruptions are always repaired. */
async function connected(make: (retry: Retry) => IoredisClient): Promise<IoredisClient> {
  let ready = false;
  let cause: unknown;
  const client = make((times) => (ready ? Math.min(RETRY_MAX_MS, times * 50) : undefined));
  client.on("error", (error: unknown) => {
    // The first error is the cause. Later ones report only that the connection is closed.
    cause ??= error;
  });
  // A connection must not keep the process alive. Each pending request has a timer that does.
  client.on("connect", () => unref(client));
  client.on("+node", (node: IoredisClient) => node.on("connect", () => unref(node)));
  try {
    await client.connect();
  } catch (error) {
    client.disconnect();
    throw findNodeError(cause ?? error);
  }
  ready = true;
  return client;
}

function unref(client: IoredisClient): void {
  (client as { stream?: { unref?(): void } }).stream?.unref?.();
}

/** A cluster client reports only that all nodes failed. The error of the last one is the cause. */
function findNodeError(error: unknown): unknown {
  return (error as { lastNodeError?: unknown })?.lastNodeError ?? error;
}

class IoredisWire implements Wire {
  readonly library = "ioredis";
  readonly isCluster: boolean;
  readonly #client: IoredisClient;
  /** False for a user's client, which is never closed. */
  readonly #isOwn: boolean;

  constructor(client: IoredisClient, isOwn: boolean) {
    this.#client = client;
    this.#isOwn = isOwn;
    this.isCluster = (client as { isCluster?: boolean }).isCluster === true;
  }

  send(words: readonly string[]): Promise<unknown> {
    return this.#client.call(...(words as [string]));
  }

  async duplicate(): Promise<Wire> {
    return new IoredisWire(await this.#copy(), true);
  }

  async openChannels(events: ChannelEvents): Promise<ChannelWire> {
    const client = await this.#copy();
    client.on("message", (channel: string, message: string) => events.onMessage(channel, message));
    client.on("ready", () => events.onBack());
    return new IoredisChannels(client);
  }

  reset(): void {
    if (this.#isOwn) this.#client.disconnect(true);
  }

  close(): void {
    if (this.#isOwn) this.#client.disconnect();
  }

  #copy(): Promise<IoredisClient> {
    const client = this.#client;
    return connected((retryStrategy) =>
      this.isCluster
        ? client.duplicate([], { lazyConnect: true, clusterRetryStrategy: retryStrategy })
        : client.duplicate({ ...ownSettings, retryStrategy }),
    );
  }
}

class IoredisChannels implements ChannelWire {
  readonly #client: IoredisClient;

  constructor(client: IoredisClient) {
    this.#client = client;
  }

  async subscribe(channel: string): Promise<void> {
    await this.#client.subscribe(channel);
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#client.unsubscribe(channel);
  }

  reset(): void {
    this.#client.disconnect(true);
  }

  close(): void {
    this.#client.disconnect();
  }
}
