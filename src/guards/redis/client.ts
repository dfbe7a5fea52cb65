// One interface to ioredis and node-redis: run a script, by its SHA-1 if the server knows it and
// else by its text, and read a key. The guard uses the user's own client, with its timeouts and its
// offline queue. A write that the client sends late is still safe, because the server compares the
// token when it arrives. Errors keep their class and message but lose the arguments of the command,
// because those of a failed AUTH are user and password.

import { findFault } from "../../clients/shared/libraries.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import type { Script } from "./script.ts";

/** A value for Redis: a text, or bytes that are stored unchanged. */
export type RedisValue = string | Buffer;

/** The part of an ioredis client (5 and up) that the guard uses: Redis or Cluster. */
export interface IoredisScripting {
  /** Runs a script by its SHA-1. */
  evalsha(sha: string, keys: number, ...words: RedisValue[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(text: string, keys: number, ...words: RedisValue[]): Promise<unknown>;
  /** Reads a key. */
  get(key: string): Promise<unknown>;
}

/**
 * The part of a node-redis client (4.6 and up) that the guard uses: createClient, createClientPool
 * or createCluster.
 */
export interface NodeRedisScripting {
  /** Runs a script by its SHA-1. */
  // biome-ignore lint/suspicious/noExplicitAny: its type differs between versions
  evalSha(sha: string, options: any): Promise<unknown>;
  /** Runs a script by its text. */
  // biome-ignore lint/suspicious/noExplicitAny: the same
  eval(text: string, options: any): Promise<unknown>;
  /** Reads a key. */
  get(key: string): Promise<unknown>;
}

/** What redisGuard() accepts: a client of ioredis or node-redis. */
export type RedisGuardClient = IoredisScripting | NodeRedisScripting;

interface ScriptCall {
  readonly script: Script;
  readonly keys: readonly string[];
  /** Called before each attempt to send, because the lease is checked each time. */
  words(): readonly RedisValue[];
}

export interface Scripting {
  run(call: ScriptCall): Promise<unknown>;
  get(key: string): Promise<unknown>;
}

export function toScripting(client: RedisGuardClient): Scripting {
  if (typeof client === "object" && client !== null && typeof client.eval === "function") {
    if ("evalsha" in client && typeof client.evalsha === "function") {
      // redis 3 has evalsha(), too, with callbacks. Neither it nor ioredis 4 has `isCluster`.
      if (!("isCluster" in client)) rejectUnsupported();
      return overIoredis(client);
    }
    if ("evalSha" in client && typeof client.evalSha === "function") return overNodeRedis(client);
  }
  rejectUnsupported();
  throw new InvalidArgumentError(
    "redisGuard(client) takes a client of ioredis (5 and up) or of redis, known as node-redis (4.6 and up).",
  );
}

function rejectUnsupported(): void {
  const fault = findFault("ioredis", "redis");
  if (fault !== undefined) throw new InvalidArgumentError(fault);
}

function overIoredis(client: IoredisScripting): Scripting {
  return {
    get: (key) => client.get(key).catch(fail),
    run: ({ script, keys, words }) =>
      bySha(
        () => client.evalsha(script.sha, keys.length, ...keys, ...words()),
        () => client.eval(script.text, keys.length, ...keys, ...words()),
      ),
  };
}

function overNodeRedis(client: NodeRedisScripting): Scripting {
  const options = ({ keys, words }: ScriptCall): object => ({
    keys: [...keys],
    arguments: [...words()],
  });
  return {
    get: (key) => client.get(key).catch(fail),
    run: (call) =>
      bySha(
        () => client.evalSha(call.script.sha, options(call)),
        () => client.eval(call.script.text, options(call)),
      ),
  };
}

/**
 * A server that does not know the SHA-1 has not run anything, so sending the text does not repeat a
 * write.
 */
function bySha(runSha: () => Promise<unknown>, runText: () => Promise<unknown>): Promise<unknown> {
  return runSha().catch((error: unknown) => {
    if (/^NOSCRIPT\b/.test(error instanceof Error ? error.message : ""))
      return runText().catch(fail);
    return fail(error);
  });
}

function fail(error: unknown): never {
  throw redacted(error);
}
