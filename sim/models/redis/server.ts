// One Redis server as its clients see it: commands in, answers out, messages to whoever listens at this moment. It keeps
// every write that it answered (appendfsync always); a restart ends its connections and empties its cache of scripts.

import type { Program } from "../../world/program.ts";
import type { Trace } from "../../world/trace.ts";
import type { Forgetful } from "../outage.ts";
import { type Copy, KeySpace, RedisError, type Reply, Status } from "./key-space.ts";
import { bytesOf, Scripting } from "./scripting.ts";
import { LeaseWitness } from "./witness.ts";

/** The server's end of a connection. */
export interface Link {
  /** Sends what was published. */
  push(channel: string, message: string): void;
  /** The client's process is gone, and the connection with it. */
  readonly isDead: boolean;
  /** The server is gone. */
  end(): void;
}

/** What a client gets for a command. */
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
  /** A new process starts an era, so tokens rise. What else was lost is lost. */
  readonly keeps: Forgetful<Copy>["keeps"] = { failover: ["S1"], clock: [] };
  readonly #links = new Set<Link>();
  /** Who listens to which channel, and to all that begin like this. */
  readonly #channels = new Map<string, Set<Link>>();
  readonly #patterns = new Map<string, Set<Link>>();
  readonly #scripting: Scripting;
  readonly #space: KeySpace;
  readonly #witness: LeaseWitness;
  /** Counts the processes of this server: each has another run id. */
  #runs = 1;

  constructor(program: Program, trace: Trace) {
    const { clocks, chance } = program;
    const witness = new LeaseWitness({
      ...{ trace, clocks },
      isThere: (key) => space.has(key),
      running: () => this.#scripting.running,
    });
    const space = new KeySpace({
      ...{ chance, witness, now: () => clocks.wallNow(), info: () => this.#info() },
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
    for (const listeners of this.#patterns.values()) listeners.delete(link);
  }

  /** Whether the server knows this connection: after a restart it does not. */
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
        return shown(this.#scripting.evalSha(words));
      case "eval":
        return shown(this.#scripting.evalText(words));
      case "info":
        return this.#info();
      case "config":
        return [second, CONFIG[second]];
      case "subscribe":
        return void listenersOf(this.#channels, bytesOf(first)).add(link);
      case "unsubscribe":
        return void listenersOf(this.#channels, bytesOf(first)).delete(link);
      case "psubscribe":
        return void listenersOf(this.#patterns, bytesOf(first).slice(0, -1)).add(link);
      case "punsubscribe":
        return void listenersOf(this.#patterns, bytesOf(first).slice(0, -1)).delete(link);
      default:
        throw new RedisError(`ERR unknown command '${name}'`);
    }
  }

  /** Nobody who is not connected now will ever get it. */
  #publish(channel: string, message: string): number {
    let heard = 0;
    const tell = (listeners: ReadonlySet<Link> | undefined): void => {
      for (const link of listeners ?? []) {
        heard += 1;
        if (link.isDead) this.drop(link);
        else link.push(textOf(channel), textOf(message));
      }
    };
    tell(this.#channels.get(channel));
    for (const [start, listeners] of this.#patterns) if (channel.startsWith(start)) tell(listeners);
    return heard;
  }
}

function listenersOf(all: Map<string, Set<Link>>, name: string): Set<Link> {
  let listeners = all.get(name);
  if (listeners === undefined) {
    listeners = new Set();
    all.set(name, listeners);
  }
  return listeners;
}

const NOT_ASCII = /[\x80-\xff]/;

function textOf(bytes: string): string {
  return NOT_ASCII.test(bytes) ? Buffer.from(bytes, "latin1").toString() : bytes;
}

/** As a client library gives it. */
function shown(reply: Reply): unknown {
  if (typeof reply === "string") return textOf(reply);
  if (reply === null || typeof reply === "number") return reply;
  return reply instanceof Status ? reply.text : reply.map(shown);
}
