// Runs Lua scripts inside the model: the text that ships is the text that runs. A script is
// compiled once for all seeds. Each server has its own script cache and loses it when it restarts.

import { sha1Hex } from "../../../src/clients/redis/digest.ts";
import { type KeySpace, RedisError, type Reply, Status } from "./key-space.ts";
import { compile, type Given } from "./lua/compile.ts";
import { LuaError, type LuaFunction, numberText, Table, type Value } from "./lua/values.ts";

interface Compiled {
  readonly sha: string;
  /** The name in its first line. */
  readonly name: string;
  readonly run: (given: Given) => Value;
}

const byText = new Map<string, Compiled>();

function compiled(text: string): Compiled {
  let script = byText.get(text);
  if (script === undefined) {
    const sha = sha1Hex(text);
    const name = /^-- tenure: (.*)/.exec(text)?.[1] ?? "";
    try {
      script = { sha, name, run: compile(toBytes(text)) };
    } catch (error) {
      throw new RedisError(`ERR Error compiling script: ${(error as Error).message}`);
    }
    byText.set(text, script);
  }
  return script;
}

export class Scripting {
  readonly #redis: Table;
  readonly #cache = new Map<string, Compiled>();
  /** The name of the running script. */
  running = "";

  constructor(space: KeySpace) {
    const call: LuaFunction = (words) => {
      try {
        return [toLua(space.run(words.map(argument)))];
      } catch (error) {
        throw error instanceof RedisError ? new LuaError(errorTable(error.message)) : error;
      }
    };
    this.#redis = new Table();
    this.#redis.set("call", call);
    this.#redis.set("pcall", (words) => {
      try {
        return call(words);
      } catch (error) {
        if (error instanceof LuaError) return [error.value];
        throw error;
      }
    });
    this.#redis.set("sha1hex", ([text]) => [sha1Hex(Buffer.from(String(text), "latin1"))]);
    this.#redis.set("error_reply", ([text]) => [errorTable(String(text))]);
  }

  #load(text: string): string {
    const script = compiled(text);
    this.#cache.set(script.sha, script);
    return script.sha;
  }

  /** Empties the cache, on a restart. */
  forget(): void {
    this.#cache.clear();
  }

  /** EVAL. The words are as the client sent them, with the text of the script second. */
  evalText(words: readonly string[]): Reply {
    return this.#eval(this.#load(words[1] ?? ""), words);
  }

  evalSha(words: readonly string[]): Reply {
    return this.#eval(words[1] ?? "", words);
  }

  #eval(sha: string, words: readonly string[]): Reply {
    const script = this.#cache.get(sha);
    if (script === undefined) throw new RedisError("NOSCRIPT No matching script. Please use EVAL.");
    const argvStart = 3 + Number(words[2] ?? 0);
    const given = {
      KEYS: new Table(words.slice(3, argvStart).map(toBytes)),
      ARGV: new Table(words.slice(argvStart).map(toBytes)),
      redis: this.#redis,
    };
    this.running = script.name;
    try {
      return toReply(script.run(given));
    } catch (error) {
      if (!(error instanceof LuaError)) throw error;
      const { value } = error;
      const err = value instanceof Table ? value.get("err") : undefined;
      if (typeof err === "string") throw new RedisError(err);
      throw new RedisError(`ERR user_script: ${String(value)} script: ${sha}`);
    } finally {
      this.running = "";
    }
  }
}

/** Inside the server a string has one character per byte, as Lua counts them. */
export function toBytes(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString("latin1");
}

function errorTable(text: string): Table {
  const table = new Table();
  table.set("err", text);
  return table;
}

function argument(value: Value): string {
  if (typeof value === "string") return value;
  // Redis formats numbers with 17 digits, Lua with 14.
  if (typeof value === "number") return numberText(value, 17);
  throw new LuaError("ERR Lua redis lib command arguments must be strings or integers");
}

/** A nil reply becomes false, because a table cannot hold nil. */
function toLua(reply: Reply): Value {
  if (reply === null) return false;
  if (typeof reply === "string" || typeof reply === "number") return reply;
  if (!(reply instanceof Status)) return new Table(reply.map(toLua));
  const status = new Table();
  status.set("ok", reply.text);
  return status;
}

/** A list ends at its first nil, and a number loses its fraction. */
function toReply(value: Value): Reply {
  if (typeof value === "string") return value;
  if (typeof value === "number") return Math.trunc(value);
  if (value === true) return 1;
  if (!(value instanceof Table)) return null;
  const err = value.get("err");
  if (typeof err === "string") throw new RedisError(err);
  const ok = value.get("ok");
  if (typeof ok === "string") return new Status(ok);
  const end = value.list.indexOf(undefined);
  return (end < 0 ? value.list : value.list.slice(0, end)).map(toReply);
}
