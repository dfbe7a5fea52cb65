// Simulates one Redis server as its clients see it: commands, replies, and messages to the clients
// that are subscribed at that moment. It keeps every write it acknowledged (appendfsync always). A
// restart ends its connections and empties its script cache.

import type { Program } from "../../world/program.ts";
import type { Trace } from "../../world/trace.ts";
import type { Forgetful } from "../outage.ts";
import { type Copy, KeySpace, RedisError, type Reply, Status } from "./key-space.ts";
import { Scripting, toBytes } from "./scripting.ts";
import { LeaseWitness } from "./witness.ts";

/** The server's end of a connection. */
export interface Link {
  /** Sends a published message. */
  push(channel: string, message: string): void;
  /** Whether the client's process has ended, and the connection with it. */
  readonly isDead: boolean;
  /** Called when the server goes down. */
  end(): void;
}

/** The reply to one command. */
export type Answer = { readonly value: unknown } | { readonly error: string };

const INFO = {
  redis_version: "7.4.0",
  role: "master",
  cluster_enabled: 0,
  connected_slaves: 0,
  aof_enabled: 1,
};
const CONFIG: Readonly<Record<string, string>> = {
  appendfsync: "always",
  save: "",
  maxmemory: "0",
  "maxmemory-policy": "noeviction",
};

export class RedisServer implements Forgetful<Copy> {
  /** A new process starts an era, so tokens still increase. Nothing else is promised. */
  readonly keeps: Forgetful<Copy>["keeps"] = { failover: ["S1"], clock: [] };
  readonly #links = new Set<Link>();
  /** The subscribers of each channel. */
  readonly #channels = new Map<string, Set<Link>>();
  readonly #scripting: Scripting;
  readonly #space: KeySpace;
  readonly #witness: LeaseWitness;
  /** Counts the server's processes. Each has its own run id. */
  #runs = 1;

  constructor(program: Program, trace: Trace) {
    const { clocks, chance } = program;
    const witness = new LeaseWitness({
      trace,
      clocks,
      exists: (key) => space.has(key),
      running: () => this.#scripting.running,
    });
    const space = new KeySpace({
      chance,
      witness,
      now: () => clocks.wallNow(),
      info: () => this.#info(),
      publish: (channel, message) => this.#publish(channel, message),
    });
    this.#scripting = new Scripting(space);
    this.#space = space;
    this.#witness = witness;
  }

  copy(): Copy {
    return this.#space.copy();
  }

  failOver(copy: Copy): void {
    this.#space.replace(copy);
    this.#witness.forgot(this.#space.texts());
    this.restart();
  }

  accept(link: Link): void {
    this.#links.add(link);
  }

  drop(link: Link): void {
    this.#links.delete(link);
    for (const listeners of this.#channels.values()) listeners.delete(link);
  }

  /** Whether the server knows this connection. After a restart it knows none. */
  knows(link: Link): boolean {
    return this.#links.has(link);
  }

  restart(): void {
    this.#runs += 1;
    this.#scripting.forget();
    for (const link of [...this.#links]) {
      this.drop(link);
      link.end();
    }
  }

  handle(words: readonly string[], link: Link): Answer {
    try {
      return { value: this.#answer(words, link) };
    } catch (error) {
      if (error instanceof RedisError) return { error: error.message };
      throw error;
    }
  }

  #info(): string {
    const facts = { ...INFO, run_id: this.#runs.toString(16).padStart(40, "0") };
    const lines = Object.entries(facts).map(([key, value]) => `${key}:${value}\r\n`);
    return lines.join("");
  }

  #answer(words: readonly string[], link: Link): unknown {
    const [name = "", first = "", second = ""] = words;
    switch (name) {
      case "evalsha":
        return toClientValue(this.#scripting.evalSha(words));
      case "eval":
        return toClientValue(this.#scripting.evalText(words));
      case "info":
        return this.#info();
      case "config":
        return [second, CONFIG[second]];
      case "subscribe":
        return void getListeners(this.#channels, toBytes(first)).add(link);
      case "unsubscribe":
        return void getListeners(this.#channels, toBytes(first)).delete(link);
      default:
        throw new RedisError(`ERR unknown command '${name}'`);
    }
  }

  /** Reaches current subscribers only. A message is not kept for others. */
  #publish(channel: string, message: string): number {
    let receivers = 0;
    for (const link of this.#channels.get(channel) ?? []) {
      receivers += 1;
      if (link.isDead) this.drop(link);
      else link.push(fromBytes(channel), fromBytes(message));
    }
    return receivers;
  }
}

function getListeners(all: Map<string, Set<Link>>, name: string): Set<Link> {
  let listeners = all.get(name);
  if (listeners === undefined) {
    listeners = new Set();
    all.set(name, listeners);
  }
  return listeners;
}

const NOT_ASCII = /[\x80-\xff]/;

function fromBytes(bytes: string): string {
  return NOT_ASCII.test(bytes) ? Buffer.from(bytes, "latin1").toString() : bytes;
}

/** Converts a reply to what a client library returns. */
function toClientValue(reply: Reply): unknown {
  if (typeof reply === "string") return fromBytes(reply);
  if (reply === null || typeof reply === "number") return reply;
  return reply instanceof Status ? reply.text : reply.map(toClientValue);
}
