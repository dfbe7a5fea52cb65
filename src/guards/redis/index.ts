// The guard for data in Redis. The highest tokens are keys without a ttl next to the user's keys,
// and each guarded write is one script call that compares the token, raises the highest and writes.
// The guard works on the user's own client (ioredis or node-redis). A failover can lose the highest
// token as it can lose any key.

import { InvalidArgumentError, StaleTokenError, StoreUnusableError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { padToken } from "../../core/token.ts";
import {
  admit,
  checkBound,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  resolveLastingSource,
  splitArguments,
  type TokenSource,
} from "../guard.ts";
import { type RedisGuardClient, type RedisValue, type Scripting, toScripting } from "./client.ts";
import { DEFAULT_PREFIX, keysUnder } from "./names.ts";
import { CORRUPT, fenced, type Script, STALE, scripts } from "./script.ts";

export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";
export type {
  IoredisScripting,
  NodeRedisScripting,
  RedisGuardClient,
  RedisValue,
} from "./client.ts";
export { type ResetOptions, resetHighest } from "./reset.ts";

import { paddedToken } from "../shared/stored.ts";

/** Options of redisGuard(). */
export interface RedisGuardOptions extends GuardOptions {
  /**
   * The prefix of the keys of the highest tokens. All writers of the same data must use the same
   * prefix; otherwise they do not see each other's tokens. On a cluster, include the hash tag of
   * your keys: "{billing}:guard". @default "tenure:guard"
   */
  readonly prefix?: string | undefined;
}

/** Options of set(). */
export interface SetOptions {
  /** The key expires after this time. @default never */
  readonly ttlMs?: number | undefined;
}

/** The input of script(). */
export interface ScriptInput {
  /** The KEYS of the script. On a cluster, all must share the slot of the guard. @default none */
  readonly keys?: readonly string[] | undefined;
  /** The ARGV of the script. Redis passes numbers to Lua as text. @default none */
  readonly args?: readonly (RedisValue | number | bigint)[] | undefined;
}

const REDIS_GUARD_OPTIONS: OptionNames<RedisGuardOptions> = { ...GUARD_OPTIONS, prefix: true };
const SET_OPTIONS: OptionNames<SetOptions> = { ttlMs: true };
const SCRIPT_INPUT: OptionNames<ScriptInput> = { keys: true, args: true };

/**
 * Every write takes the lease as its first argument, which may be omitted inside `lease.run()`. A
 * stale token rejects with StaleTokenError, and nothing is written.
 */
export interface RedisGuard extends Guard {
  /** Sets a key, which loses its former ttl. */
  set(source: TokenSource, key: string, value: RedisValue, options?: SetOptions): Promise<void>;
  /** The same, with the lease of the `lease.run()` around the call. */
  set(key: string, value: RedisValue, options?: SetOptions): Promise<void>;
  /** Resolves with the number of keys that existed. */
  del(source: TokenSource, ...keys: string[]): Promise<number>;
  /** The same, with the lease of the `lease.run()` around the call. */
  del(...keys: string[]): Promise<number>;
  /** Resolves with the number of new fields. */
  hset(
    source: TokenSource,
    key: string,
    fields: Readonly<Record<string, RedisValue>>,
  ): Promise<number>;
  /** The same, with the lease of the `lease.run()` around the call. */
  hset(key: string, fields: Readonly<Record<string, RedisValue>>): Promise<number>;
  /** Resolves with the new value, which is exact up to Redis' own limit of 2^63. */
  incr(source: TokenSource, key: string, by?: number | bigint): Promise<bigint>;
  /** The same, with the lease of the `lease.run()` around the call. */
  incr(key: string, by?: number | bigint): Promise<bigint>;
  /** Resolves with the number of subscribers that received the message. */
  publish(source: TokenSource, channel: string, message: RedisValue): Promise<number>;
  /** The same, with the lease of the `lease.run()` around the call. */
  publish(channel: string, message: RedisValue): Promise<number>;
  /**
   * Runs your own Lua script after the comparison. It sees its own KEYS and ARGV, and its result or
   * error is returned as from EVAL. If the script fails halfway, Redis keeps what it did so far,
   * and the highest token stays raised.
   */
  script(source: TokenSource, lua: string, input?: ScriptInput): Promise<unknown>;
  /** The same, with the lease of the `lease.run()` around the call. */
  script(lua: string, input?: ScriptInput): Promise<unknown>;
  /** Raises the highest token to that of the source without writing anything else. */
  advance(source?: TokenSource): Promise<void>;
  /** Resolves with the highest token of the resource, or undefined before the first. */
  highest(resource: string): Promise<bigint | undefined>;
  /** The names of the methods above that write, for boundedBy(). */
  readonly writeMethods: readonly ("set" | "del" | "hset" | "incr" | "publish" | "script")[];
}

/** More would not fit onto Lua's stack. */
const WORDS_MAX = 4_000;
/** The size of the cache of user scripts. Hashing a script takes longer than sending it. */
const SCRIPTS_KEPT_MAX = 1_000;

/**
 * Creates a guard for the data of your own client of ioredis or node-redis. The guard does not
 * close it.
 */
export function redisGuard(client: RedisGuardClient, options: RedisGuardOptions = {}): RedisGuard {
  const steps = new Steps(toScripting(client), options);
  const fencedScripts = new Map<string, Script>();

  function fencedOnce(lua: string): Script {
    const known = fencedScripts.get(lua);
    if (known !== undefined) return known;
    checkLua(lua);
    const made = fenced(lua);
    if (fencedScripts.size >= SCRIPTS_KEPT_MAX) fencedScripts.clear();
    fencedScripts.set(lua, made);
    return made;
  }

  const command = (source: TokenSource | undefined, step: Omit<Step, "script">): Promise<unknown> =>
    steps.run(source, { script: scripts.command, ...step });

  return {
    set: withSource(async (source, key, value, setOptions: SetOptions = {}) => {
      checkOptionNames("set()", setOptions, SET_OPTIONS);
      const words = [checkValue(value, "value")];
      const keys = [checkKey(key)];
      if (setOptions.ttlMs === undefined) {
        await steps.run(source, { script: scripts.set, keys, words });
      } else {
        await command(source, { keys, words: ["SET", ...words, "PX", checkTtl(setOptions.ttlMs)] });
      }
    }),
    del: withSource(async (source, ...keys) =>
      Number(await command(source, { keys: checkKeys(keys), words: ["DEL"] })),
    ),
    hset: withSource(async (source, key, fields) => {
      const words = ["HSET", ...checkFields(fields)];
      return Number(await command(source, { keys: [checkKey(key)], words }));
    }),
    incr: withSource(async (source, key, by: unknown = 1) => {
      const keys = [checkKey(key)];
      const words = [checkStep(by)];
      return BigInt(String(await steps.run(source, { script: scripts.incr, keys, words })));
    }),
    publish: withSource(async (source, channel, message) => {
      const words = ["PUBLISH", checkKey(channel), checkValue(message, "message")];
      return Number(await command(source, { keys: [], words }));
    }),
    script: withSource((source, lua, input: ScriptInput = {}) => {
      checkOptionNames("script()", input, SCRIPT_INPUT);
      const words = (input.args ?? []).map((word) =>
        typeof word === "number" || typeof word === "bigint"
          ? String(word)
          : checkValue(word, "argument"),
      );
      const keys = input.keys === undefined ? [] : checkKeys(input.keys, 0);
      return steps.run(source, { script: fencedOnce(lua as string), keys, words });
    }),
    writeMethods: ["set", "del", "hset", "incr", "publish", "script"],
    advance: async (source) => {
      await steps.run(source, { script: scripts.advance, keys: [], words: [] });
    },
    highest: (resource) => steps.highest(resource),
  } as RedisGuard;
}

/**
 * Adds the optional first argument. A key, a channel or a script is always a string, and a source
 * never is.
 */
function withSource<T>(
  // biome-ignore lint/suspicious/noExplicitAny: checked at run time
  write: (source: TokenSource | undefined, ...rest: any[]) => Promise<T>,
): (...given: unknown[]) => Promise<T> {
  return async (...given) => {
    if (typeof given[0] === "string") return await write(undefined, ...given);
    const [source, rest] = splitArguments([given[0] as TokenSource, given.slice(1)]);
    return await write(source, ...rest);
  };
}

interface Step {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly words: readonly RedisValue[];
}

interface LeaseTexts {
  readonly resource: string;
  readonly token: bigint;
  readonly key: string;
  readonly padded: string;
}

/** Runs the guarded scripts and translates their errors. */
class Steps {
  readonly #scripting: Scripting;
  readonly #toKey: (resource: string) => string;
  readonly #resource: string | undefined;
  #latest: LeaseTexts | undefined;

  constructor(scripting: Scripting, options: RedisGuardOptions) {
    this.#scripting = scripting;
    this.#toKey = keysUnder(options.prefix ?? DEFAULT_PREFIX);
    this.#resource = checkBound("redisGuard()", options, REDIS_GUARD_OPTIONS);
  }

  /** Throws InvalidArgumentError synchronously, before anything is sent. */
  run(given: TokenSource | undefined, { script, keys, words }: Step): Promise<unknown> {
    const source = resolveLastingSource(given, this.#resource);
    if (keys.length + words.length > WORDS_MAX) {
      throw new InvalidArgumentError(
        `A guarded step takes at most ${WORDS_MAX} keys and values, got ${keys.length + words.length}. Split it.`,
      );
    }
    const { key, padded } = this.#texts(source);
    const answer = this.#scripting.run({
      script,
      keys: [key, ...keys],
      words: () => {
        // Calls the lease's check() right before the command is sent.
        const token = admit(source, undefined);
        return [token === source.token ? padded : padToken(token), ...words];
      },
    });
    return answer.catch((error: unknown) => {
      throw explain(error, { resource: source.resource, token: source.token, key });
    });
  }

  /**
   * Caches the key and token text of the latest lease, because a holder writes repeatedly with the
   * same one.
   */
  #texts({ resource, token }: TokenSource): LeaseTexts {
    if (this.#latest?.resource !== resource || this.#latest.token !== token) {
      this.#latest = { resource, token, key: this.#toKey(resource), padded: padToken(token) };
    }
    return this.#latest;
  }

  async highest(resource: string): Promise<bigint | undefined> {
    const key = this.#toKey(checkResource(resource));
    const text = await this.#scripting.get(key);
    if (text === null || text === undefined) return undefined;
    const token = paddedToken(String(text));
    if (token === undefined) throw corrupt(key, String(text));
    return token;
  }
}

function explain(error: unknown, step: { resource: string; token: bigint; key: string }): unknown {
  const message = error instanceof Error ? error.message : "";
  const { resource, token: offered, key } = step;
  const stale = new RegExp(`\\b${STALE} (\\d{39})`).exec(message);
  if (stale !== null) {
    const highest = paddedToken(stale[1] ?? "");
    if (highest === undefined) return corrupt(key, stale[1] ?? "");
    return StaleTokenError.from({ resource, offered, highest });
  }
  const damaged = new RegExp(`\\b${CORRUPT} ([^]*)`).exec(message);
  if (damaged !== null) return corrupt(key, damaged[1] ?? "");
  if (/\bCROSSSLOT\b/.test(message)) {
    return new InvalidArgumentError(
      `On a cluster a guarded write and the highest token must share a slot; the highest is kept under "${key}". ` +
        `Give your keys the same hash tag, the text in braces there, or give the guard theirs: redisGuard(client, { prefix: "{tag}:guard" }).`,
      { resource, cause: error },
    );
  }
  return error;
}

function corrupt(key: string, found: string): StoreUnusableError {
  return new StoreUnusableError(
    `The key "${key}" should hold a token of 39 digits, and holds ${JSON.stringify(found.slice(0, 60))}. Nothing was written. ` +
      "Another program uses this key: give the guard another prefix, or set the key to the highest token, padded.",
  );
}

function checkKey(key: unknown): string {
  if (typeof key === "string" && key !== "") return key;
  throw new InvalidArgumentError(`Expected a key or channel (a text), got ${describe(key)}.`);
}

function checkKeys(keys: readonly unknown[], atLeast = 1): string[] {
  if (!Array.isArray(keys) || keys.length < atLeast) {
    throw new InvalidArgumentError("Expected at least one key.");
  }
  return keys.map(checkKey);
}

function checkValue(value: unknown, what: string): RedisValue {
  if (typeof value === "string" || Buffer.isBuffer(value)) return value;
  throw new InvalidArgumentError(
    `Expected a ${what} (a text or a Buffer), got ${describe(value)}.`,
  );
}

function checkFields(fields: unknown): RedisValue[] {
  const entries = typeof fields === "object" && fields !== null ? Object.entries(fields) : [];
  if (entries.length === 0) {
    throw new InvalidArgumentError("hset() needs an object with at least one field.");
  }
  return entries.flatMap(([field, value]) => [field, checkValue(value, `value of ${field}`)]);
}

function checkTtl(ttlMs: unknown): string {
  if (Number.isSafeInteger(ttlMs) && Number(ttlMs) > 0) return String(ttlMs);
  throw new InvalidArgumentError(
    `\`ttlMs\` must be a whole number of milliseconds above 0, got ${describe(ttlMs)}.`,
  );
}

function checkStep(by: unknown): string {
  if (typeof by === "bigint" || Number.isSafeInteger(by)) return String(by);
  throw new InvalidArgumentError(`incr() takes a whole number, got ${describe(by)}.`);
}

function checkLua(lua: unknown): void {
  if (typeof lua !== "string" || lua.trim() === "") {
    throw new InvalidArgumentError(`Expected a Lua script (a text), got ${describe(lua)}.`);
  }
  if (lua.startsWith("#!")) {
    throw new InvalidArgumentError(
      "A fenced script cannot begin with #! flags: the comparison stands before it. Leave that line out.",
    );
  }
}

function describe(value: unknown): string {
  return value === "" ? "an empty text" : typeof value;
}
