// Stores on one Redis server, each under its own prefix, and the requests that most tests make.

import { Redis } from "ioredis";
import { expect, onTestFinished } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import type { RedisServer } from "../../servers/redis.ts";
import { RecordedEvents } from "./session-events.ts";

export const LIMIT_MS = 5_000;

export interface RedisWorld {
  /** Opens a store; `base` is the beginning of all its keys. */
  opened(): Promise<{ store: Store; prefix: string; base: string }>;
  session(store: Store, sessionId: string, ttlMs?: number): Promise<RecordedEvents>;
  /** Requests a grant that must succeed, and returns its token. */
  take(store: Store, sessionId: string, resource: string): Promise<bigint>;
  /** Requests a grant that must be queued. The attempt is `<sessionId>.queued`. */
  queue(store: Store, sessionId: string, resource: string): Promise<void>;
  /** Takes and releases the resource, and returns the token. */
  cycle(store: Store, sessionId: string, resource: string): Promise<bigint>;
}

export function redisWorld(redis: () => RedisServer, name: string): RedisWorld {
  let prefixes = 0;
  let attempts = 0;
  const take: RedisWorld["take"] = async (store, sessionId, resource) => {
    attempts += 1;
    const attempt = `${sessionId}.${attempts}`;
    const request = { sessionId, resource, attempt, holderId: sessionId, queue: false };
    const outcome = await store.grant({ ...request, limitMs: LIMIT_MS });
    if (outcome.kind !== "granted") throw new Error(outcome.kind);
    return outcome.token;
  };
  return {
    opened: async () => {
      prefixes += 1;
      const prefix = `${name}${prefixes}`;
      const store = await redisStore({ url: redis().url, prefix })(systemParts());
      onTestFinished(() => store.close());
      return { store, prefix, base: `{${prefix}}:` };
    },
    session: async (store, sessionId, ttlMs = 60_000) => {
      const events = new RecordedEvents();
      const request = { sessionId, holderId: sessionId, ttlMs, events, limitMs: LIMIT_MS };
      await store.openSession(request);
      return events;
    },
    take,
    queue: async (store, sessionId, resource) => {
      const attempt = `${sessionId}.queued`;
      const request = { sessionId, resource, attempt, holderId: sessionId, queue: true };
      const outcome = await store.grant({ ...request, limitMs: LIMIT_MS });
      if (outcome.kind !== "queued") throw new Error(outcome.kind);
    },
    cycle: async (store, sessionId, resource) => {
      const token = await take(store, sessionId, resource);
      const released = await store.release({ sessionId, resource, token, limitMs: LIMIT_MS });
      expect(released).toEqual({ kind: "released" });
      return token;
    },
  };
}

/** Everything that is published in the namespace, as the kind of channel and the message. */
export async function collectMessages(server: RedisServer, base: string): Promise<string[]> {
  const received: string[] = [];
  const listener = new Redis(server.url);
  onTestFinished(() => listener.disconnect());
  listener.on("pmessage", (_pattern, channel: string, message: string) =>
    received.push(`${channel.slice(base.length).split(":", 1)} ${message}`),
  );
  await listener.psubscribe(`${base}*`);
  return received;
}
