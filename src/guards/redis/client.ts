// The narrow seam to Redis: a script call, by its name where the server knows it, else with its text. ioredis and
// node-redis spell it differently; the rest of their clients is not needed here. A guard sends on the user's own client,
// so its timeouts and its queue while offline are the client's: a write that leaves late is compared when it arrives. Errors keep
// their class and message, and lose the arguments of the command: of a failed AUTH they are user and password.

import { faultOf } from "../../clients/shared/libraries.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import type { Script } from "./script.ts";

export type RedisValue = string | Buffer;

/** What the guard uses of an ioredis client (5 and up): Redis or Cluster. */
export interface IoredisScripting {
  evalsha(sha: string, keys: number, ...words: RedisValue[]): Promise<unknown>;
  eval(text: string, keys: number, ...words: RedisValue[]): Promise<unknown>;
  get(key: string): Promise<unknown>;
}

/** What the guard uses of a node-redis client (4.6 and up): createClient, createClientPool or createCluster. */
export interface NodeRedisScripting {
  // biome-ignore lint/suspicious/noExplicitAny: the library's own option types differ from version to version
  evalSha(sha: string, options: any): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: the same
  eval(text: string, options: any): Promise<unknown>;
  get(key: string): Promise<unknown>;
}

export type RedisGuardClient = IoredisScripting | NodeRedisScripting;

interface ScriptCall {
  readonly script: Script;
  readonly keys: readonly string[];
  /** Asked once per sending, because the lease is checked each time. */
  words(): readonly RedisValue[];
}

export interface Scripting {
  run(call: ScriptCall): Promise<unknown>;
  get(key: string): Promise<unknown>;
}

export function toScripting(client: RedisGuardClient): Scripting {
  if (typeof client === "object" && client !== null && typeof client.eval === "function") {
    if ("evalsha" in client && typeof client.evalsha === "function") {
      // Also redis 3 has it, with callbacks. Neither it nor ioredis 4 says whether a client is a cluster.
      if (!("isCluster" in client)) refuseUnsupported();
      return overIoredis(client);
    }
    if ("evalSha" in client && typeof client.evalSha === "function") return overNodeRedis(client);
  }
  refuseUnsupported();
  throw new InvalidArgumentError(
    "redisGuard(client) takes a client of ioredis (5 and up) or of redis, known as node-redis (4.6 and up).",
  );
}

function refuseUnsupported(): void {
  const fault = faultOf("ioredis", "redis");
  if (fault !== undefined) throw new InvalidArgumentError(fault);
}

function overIoredis(client: IoredisScripting): Scripting {
  return {
    get: (key) => client.get(key).catch(fail),
    run: ({ script, keys, words }) =>
      byNameFirst(
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
      byNameFirst(
        () => client.evalSha(call.script.sha, options(call)),
        () => client.eval(call.script.text, options(call)),
      ),
  };
}

/** A server that does not know the name has not run anything, so sending the text is not a second write. */
function byNameFirst(
  byName: () => Promise<unknown>,
  byText: () => Promise<unknown>,
): Promise<unknown> {
  return byName().catch((error: unknown) => {
    if (/^NOSCRIPT\b/.test(error instanceof Error ? error.message : ""))
      return byText().catch(fail);
    return fail(error);
  });
}

function fail(error: unknown): never {
  throw redacted(error);
}
