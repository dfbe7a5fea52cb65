// The seam over node-redis. On connections of our own nothing is queued while offline: the caller is told at once that
// nothing was sent. It has no way to drop a connection and make a new one, so that is done here, with a new client.

import type { ChannelEvents, ChannelWire, Library, NodeRedisClient, Target, Wire } from "./wire.ts";

/** How long to wait before the next try to connect again. */
const RETRY_MAX_MS = 1_000;

type Create = (options: object) => NodeRedisClient;
type Retry = (retries: number) => number | false;
type Make = (retry: Retry) => NodeRedisClient;

export async function load(): Promise<Library> {
  const specifier: string = "redis";
  const { createClient } = (await import(specifier)) as { createClient: Create };
  return {
    connect: ({ place, connectMs, tls }: Target) => {
      if (place.kind !== "server") throw new Error(`Made for one server, not for a ${place.kind}.`);
      const { at, login, db, isTls } = place;
      const make: Make = (reconnectStrategy) =>
        createClient({
          ...login,
          database: db,
          disableOfflineQueue: true,
          socket: { ...at, tls: isTls, connectTimeout: connectMs, reconnectStrategy, ...tls },
        });
      return ownWire(make);
    },
  };
}

/** The user's client: used for commands as it is, and copied for messages. */
export function nodeRedisWire(client: NodeRedisClient): Wire {
  return new NodeRedisWire(client, undefined);
}

async function ownWire(make: Make): Promise<Wire> {
  return new NodeRedisWire(await connected(make), make);
}

/** Connects once, and tells the first failure; later interruptions are mended for ever. */
async function connected(make: Make): Promise<NodeRedisClient> {
  let ready = false;
  const client = prepared(
    make((retries) => (ready ? Math.min(RETRY_MAX_MS, (retries + 1) * 50) : false)),
  );
  await client.connect();
  ready = true;
  return client;
}

/** A new client in place of one that is stuck; it tries until it succeeds. */
function replaced(old: NodeRedisClient, make: Make, onReady?: () => void): NodeRedisClient {
  destroy(old);
  const client = prepared(make((retries) => Math.min(RETRY_MAX_MS, (retries + 1) * 50)));
  if (onReady !== undefined) client.on("ready", onReady);
  client.connect().catch(() => undefined);
  return client;
}

function prepared(client: NodeRedisClient): NodeRedisClient {
  // Every request that fails says so itself; an unheard event would end the process.
  client.on("error", () => undefined);
  // A connection alone must not keep the process alive: whoever waits for an answer has a timer.
  (client as { unref?(): void }).unref?.();
  return client;
}

function destroy(client: NodeRedisClient): void {
  try {
    // redis 4 calls it disconnect(). There it returns a promise, and 5 has deprecated it.
    if (client.destroy !== undefined) client.destroy();
    else client.disconnect?.().catch(() => undefined);
  } catch {
    // It was closed already.
  }
}

class NodeRedisWire implements Wire {
  readonly library = "redis";
  readonly isCluster: boolean;
  readonly #make: Make | undefined;
  #client: NodeRedisClient;

  /** With `make` the client is our own. */
  constructor(client: NodeRedisClient, make: Make | undefined) {
    this.#client = client;
    this.#make = make;
    this.isCluster = "slots" in client;
  }

  send(words: readonly string[], key: string): Promise<unknown> {
    return this.isCluster
      ? this.#client.sendCommand(key, false, words)
      : this.#client.sendCommand(words);
  }

  duplicate(): Promise<Wire> {
    return ownWire(this.#copy());
  }

  async openChannels(events: ChannelEvents): Promise<ChannelWire> {
    const make = this.#copy();
    const client = await connected(make);
    // From here on, "ready" means back after an interruption.
    client.on("ready", () => events.onBack());
    return new NodeRedisChannels(client, make, events);
  }

  reset(): void {
    if (this.#make !== undefined) this.#client = replaced(this.#client, this.#make);
  }

  close(): void {
    if (this.#make !== undefined) destroy(this.#client);
  }

  #copy(): Make {
    if (this.#make !== undefined) return this.#make;
    const client = this.#client;
    if (this.isCluster) return () => client.duplicate();
    const { options } = client as { options?: { socket?: object } };
    return (reconnectStrategy) =>
      client.duplicate({
        disableOfflineQueue: true,
        socket: { ...options?.socket, reconnectStrategy },
      });
  }
}

class NodeRedisChannels implements ChannelWire {
  readonly #make: Make;
  readonly #events: ChannelEvents;
  #client: NodeRedisClient;

  constructor(client: NodeRedisClient, make: Make, events: ChannelEvents) {
    this.#client = client;
    this.#make = make;
    this.#events = events;
  }

  readonly #listener = (message: unknown, channel: unknown): void =>
    this.#events.onMessage(String(channel), String(message));

  async subscribe(channel: string, isPattern: boolean): Promise<void> {
    if (isPattern) await this.#client.pSubscribe(channel, this.#listener);
    else await this.#client.subscribe(channel, this.#listener);
  }

  async unsubscribe(channel: string, isPattern: boolean): Promise<void> {
    if (isPattern) await this.#client.pUnsubscribe(channel);
    else await this.#client.unsubscribe(channel);
  }

  reset(): void {
    this.#client = replaced(this.#client, this.#make, () => this.#events.onBack());
  }

  close(): void {
    destroy(this.#client);
  }
}
