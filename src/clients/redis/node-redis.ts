// Implements the connection on node-redis. Our own connections do not queue commands while offline,
// so the caller learns at once that nothing was sent. The library cannot replace a connection, so
// this file replaces the client.

import type { ChannelEvents, ChannelWire, Library, NodeRedisClient, Target, Wire } from "./wire.ts";

/** The longest wait before the next try to reconnect. */
const RETRY_MAX_MS = 1_000;

type Create = (options: object) => NodeRedisClient;
type Retry = (retries: number) => number | false;
type Make = (retry: Retry) => NodeRedisClient;

export async function load(): Promise<Library> {
  const specifier: string = "redis";
  const { createClient } = (await import(specifier)) as { createClient: Create };
  return {
    connect: ({ place, connectMs, tls }: Target) => {
      if (place.kind !== "server") throw new Error(`node-redis does not open a ${place.kind}.`);
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

/** A user's client: it sends our commands, and a duplicate receives messages. */
export function nodeRedisWire(client: NodeRedisClient): Wire {
  return new NodeRedisWire(client, undefined);
}

async function ownWire(make: Make): Promise<Wire> {
  return new NodeRedisWire(await connected(make), make);
}

/** Connects once, and throws if that fails. Later interruptions are always repaired. */
async function connected(make: Make): Promise<NodeRedisClient> {
  let ready = false;
  const client = prepared(
    make((retries) => (ready ? Math.min(RETRY_MAX_MS, (retries + 1) * 50) : false)),
  );
  await client.connect();
  ready = true;
  return client;
}

/** Replaces a client that is stuck. The new one tries until it succeeds. */
function replaced(old: NodeRedisClient, make: Make, onReady?: () => void): NodeRedisClient {
  destroy(old);
  const client = prepared(make((retries) => Math.min(RETRY_MAX_MS, (retries + 1) * 50)));
  if (onReady !== undefined) client.on("ready", onReady);
  client.connect().catch(() => undefined);
  return client;
}

function prepared(client: NodeRedisClient): NodeRedisClient {
  // Each failed request throws by itself. An error event without a listener ends the process.
  client.on("error", () => undefined);
  // A connection must not keep the process alive. Each pending request has a timer that does.
  (client as { unref?(): void }).unref?.();
  return client;
}

function destroy(client: NodeRedisClient): void {
  try {
    // In redis 4 it is disconnect(), which returns a promise and is deprecated in 5.
    if (client.destroy !== undefined) client.destroy();
    else client.disconnect?.().catch(() => undefined);
  } catch {
    // It was closed before.
  }
}

class NodeRedisWire implements Wire {
  readonly library = "redis";
  readonly isCluster: boolean;
  readonly #make: Make | undefined;
  #client: NodeRedisClient;

  /** `make` is undefined for a user's client. */
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
    // Every later "ready" ends an interruption.
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

  async subscribe(channel: string): Promise<void> {
    await this.#client.subscribe(channel, this.#listener);
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#client.unsubscribe(channel);
  }

  reset(): void {
    this.#client = replaced(this.#client, this.#make, () => this.#events.onBack());
  }

  close(): void {
    destroy(this.#client);
  }
}
