// What the store needs of a connection to Redis. Two libraries provide it, ioredis and node-redis.
// A user's own client is used as it is; from a URL, a client is created. Neither library is
// imported before a store is opened.

import { InvalidArgumentError, StoreUnusableError } from "../../core/errors.ts";
import { findFault } from "../shared/libraries.ts";
import { missingLibrary } from "../shared/missing-library.ts";
import type { Place } from "./url.ts";

/** One connection for commands. */
export interface Wire {
  readonly library: RedisLibraryName;
  /** A cluster client: each command goes to the node that has its key. */
  readonly isCluster: boolean;
  /** Sends one command, in one round trip. Commands arrive in the order in which they are sent. */
  send(words: readonly string[], key: string): Promise<unknown>;
  /** Opens another connection with the same settings, for commands that would delay others. */
  duplicate(): Promise<Wire>;
  /** Opens another connection with the same settings, for messages only. */
  openChannels(events: ChannelEvents): Promise<ChannelWire>;
  /** Replaces a connection on which nothing is received. Leaves a user's own client as it is. */
  reset(): void;
  /** Closes the connection, unless it is a user's own client. */
  close(): void;
}

export interface ChannelEvents {
  onMessage(channel: string, message: string): void;
  /** Connected again after an interruption. Messages may have been missed. */
  onBack(): void;
}

/** One connection for messages. */
export interface ChannelWire {
  subscribe(channel: string): Promise<void>;
  unsubscribe(channel: string): Promise<void>;
  reset(): void;
  close(): void;
}

/** The package that connects to Redis, by its name in npm. */
export type RedisLibraryName = "ioredis" | "redis";

/** In the order in which they are tried. */
export const LIBRARIES: readonly RedisLibraryName[] = ["ioredis", "redis"];

/** The part of an ioredis client (5 and up) that the store uses: alone, Sentinel or Cluster. */
export interface IoredisClient {
  /** The state of the connection, such as "ready". */
  readonly status: string;
  /** Sends any command. */
  call(command: string, ...args: string[]): Promise<unknown>;
  /** Makes another client with the same settings. */
  // biome-ignore lint/suspicious/noExplicitAny: a cluster takes its nodes first
  duplicate(...overrides: any[]): IoredisClient;
  /** Connects a client that was made with `lazyConnect`. */
  connect(): Promise<void>;
  /** Closes the connection. With `reconnect`, opens a new one. */
  disconnect(reconnect?: boolean): void;
  /** Subscribes to channels. */
  subscribe(...channels: string[]): Promise<unknown>;
  /** Ends subscriptions to channels. */
  unsubscribe(...channels: string[]): Promise<unknown>;
  /** Adds a listener for messages and for changes of the connection. */
  // biome-ignore lint/suspicious/noExplicitAny: events of many shapes
  on(event: string, listener: (...facts: any[]) => void): unknown;
}

/**
 * The part of a node-redis client (4.6 and up) that the store uses, as made by createClient or
 * createCluster.
 */
export interface NodeRedisClient {
  /** Whether connect() was called and the client was not closed. */
  readonly isOpen: boolean;
  /** Sends any command. */
  // biome-ignore lint/suspicious/noExplicitAny: a client takes words, a cluster takes a key first
  sendCommand(...args: any[]): Promise<unknown>;
  /** Makes another client with the same settings. */
  // biome-ignore lint/suspicious/noExplicitAny: overrides of many shapes
  duplicate(overrides?: any): NodeRedisClient;
  /** Connects the client. */
  connect(): Promise<unknown>;
  /** Closes the connection immediately, since redis 5. */
  destroy?(): unknown;
  /** Closes the connection immediately, up to redis 4. */
  disconnect?(): Promise<unknown>;
  /** Subscribes to a channel. */
  // biome-ignore lint/suspicious/noExplicitAny: texts or buffers
  subscribe(channel: string, listener: (message: any, channel: any) => void): Promise<unknown>;
  /** Ends the subscription to a channel. */
  unsubscribe(channel: string): Promise<unknown>;
  /** Adds a listener for changes of the connection. */
  // biome-ignore lint/suspicious/noExplicitAny: events of many shapes
  on(event: string, listener: (...facts: any[]) => void): unknown;
}

/** What redisStore() accepts as `client`: a client of ioredis or node-redis. */
export type RedisClient = IoredisClient | NodeRedisClient;

export interface Target {
  readonly place: Place;
  readonly connectMs: number;
  /** Passed to tls.connect(): ca, cert, key, servername. */
  readonly tls: object | undefined;
}

/** A library that can create a client. */
export interface Library {
  connect(target: Target): Promise<Wire>;
}

/**
 * The named library, or the first one that is installed. Only ioredis opens the URL of a cluster or
 * of Sentinels.
 */
export async function loadLibrary(
  name?: RedisLibraryName,
  kind: Place["kind"] = "server",
): Promise<Library> {
  if (kind !== "server" && name === "redis") {
    throw new InvalidArgumentError(
      `A ${kind} URL is opened through ioredis: write library=ioredis, or make the client of redis yourself and pass it as redisStore({ client }).`,
    );
  }
  const both: readonly RedisLibraryName[] = kind === "server" ? LIBRARIES : ["ioredis"];
  const order = name === undefined ? both : [name];
  const failures: unknown[] = [];
  for (const candidate of order) {
    try {
      const adapter =
        candidate === "ioredis" ? await import("./ioredis.ts") : await import("./node-redis.ts");
      const library = await adapter.load();
      rejectUnsupported(candidate);
      return library;
    } catch (error) {
      failures.push(error);
    }
  }
  const unsupported = failures.find((error) => error instanceof StoreUnusableError);
  if (unsupported !== undefined) throw unsupported;
  throw missingLibrary({
    backend: "Redis",
    tried: order,
    install: `Run \`npm install ${order[0]}\`.`,
    instead: "redisStore({ client })",
    cause: failures.at(-1),
  });
}

/** The adapter that fits the user's client. */
export async function wireOf(client: RedisClient): Promise<Wire> {
  if (typeof client === "object" && client !== null) {
    if ("call" in client && "status" in client) {
      // In ioredis 4 only cluster clients have this property.
      if (!("isCluster" in client)) rejectUnsupported("ioredis");
      const { ioredisWire } = await import("./ioredis.ts");
      return ioredisWire(client);
    }
    if ("sendCommand" in client && ("isOpen" in client || "slots" in client)) {
      const { nodeRedisWire } = await import("./node-redis.ts");
      return nodeRedisWire(client);
    }
  }
  rejectUnsupported("ioredis", "redis");
  throw new InvalidArgumentError(
    "redisStore({ client }) takes a client of ioredis (5 and up) or of redis, known as node-redis (4.6 and up).",
  );
}

function rejectUnsupported(...names: RedisLibraryName[]): void {
  const fault = findFault(...names);
  if (fault !== undefined) throw new StoreUnusableError(fault);
}
