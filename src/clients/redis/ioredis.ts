// The seam over ioredis. Of its defaults we leave four behind on connections of our own: no queue while offline (the
// caller is told at once that nothing was sent), no resending (a request is sent once, the caller decides), retries for
// ever, but only after the first connection has worked, and no patience with one that is given up.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { HostPort } from "../shared/url.ts";
import type { ChannelEvents, ChannelWire, IoredisClient, Library, Target, Wire } from "./wire.ts";

/** How long to wait before the next try to connect again. */
const RETRY_MAX_MS = 1_000;

/**
 * A connection that is given up because nothing comes over it answers no goodbye either. By default ioredis waits 2 s for one before
 * it connects anew, which is most of a short ttl. Nothing is lost: whoever gives it up has every answer, or has stopped waiting.
 */
const GOODBYE_MS = 20;

const ownSettings = {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  maxRetriesPerRequest: 0,
  commandTimeout: undefined,
  disconnectTimeout: GOODBYE_MS,
} as const;

interface Ioredis {
  /** Also exported by name, but not by 5.0. */
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
        ...{ sentinels: place.hosts, name: place.master, db: place.db },
        ...(username === undefined ? {} : { sentinelUsername: username }),
        ...(password === undefined ? {} : { sentinelPassword: password }),
        ...(place.isTls ? { sentinelTLS: tls, enableTLSForSentinelMode: true } : {}),
        retryStrategy: retry,
        // Between the death of a master and the choice of the next, Sentinels name one that does not answer.
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
        // A certificate names hosts, not their addresses.
        ...(place.isTls ? { dnsLookup: asItIs } : {}),
      });
  }
}

function asItIs(host: string, found: (error: null, address: string) => void): void {
  found(null, host);
}

/** The user's client: used for commands as it is, and copied for messages. */
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

/** Connects once; later interruptions are mended for ever. The first failure is told with its true cause. */
async function connected(make: (retry: Retry) => IoredisClient): Promise<IoredisClient> {
  let ready = false;
  let cause: unknown;
  const client = make((times) => (ready ? Math.min(RETRY_MAX_MS, times * 50) : undefined));
  client.on("error", (error: unknown) => {
    // The first one is the cause; those behind it say only that the connection is closed.
    cause ??= error;
  });
  // A connection alone must not keep the process alive: whoever waits for an answer has a timer.
  client.on("connect", () => unref(client));
  client.on("+node", (node: IoredisClient) => node.on("connect", () => unref(node)));
  try {
    await client.connect();
  } catch (error) {
    client.disconnect();
    throw ofNode(cause ?? error);
  }
  ready = true;
  return client;
}

function unref(client: IoredisClient): void {
  (client as { stream?: { unref?(): void } }).stream?.unref?.();
}

/** A cluster client says only that all nodes failed, and has what the last one said. */
function ofNode(error: unknown): unknown {
  return (error as { lastNodeError?: unknown })?.lastNodeError ?? error;
}

class IoredisWire implements Wire {
  readonly library = "ioredis";
  readonly isCluster: boolean;
  readonly #client: IoredisClient;
  /** Not the user's, which is left as it is. */
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
    client.on("pmessage", (_pattern: string, channel: string, message: string) =>
      events.onMessage(channel, message),
    );
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

  async subscribe(channel: string, isPattern: boolean): Promise<void> {
    await (isPattern ? this.#client.psubscribe(channel) : this.#client.subscribe(channel));
  }

  async unsubscribe(channel: string, isPattern: boolean): Promise<void> {
    await (isPattern ? this.#client.punsubscribe(channel) : this.#client.unsubscribe(channel));
  }

  reset(): void {
    this.#client.disconnect(true);
  }

  close(): void {
    this.#client.disconnect();
  }
}
