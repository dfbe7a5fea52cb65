// The data of one Redis server, as far as our scripts use it: strings, lists, and sorted sets whose
// members all have the same score, each with or without an expiry. Redis reads its wall clock in
// whole milliseconds, and a key exists until the millisecond of its expiry has passed.

import type { Chance } from "../../world/chance.ts";

export type Reply = string | number | null | Status | readonly Reply[];

/** The reply `+OK`, of commands that return no value. */
export class Status {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An error reply. Its message begins with the error code. */
export class RedisError extends Error {}

type Data = string | string[] | Set<string>;

interface Entry {
  readonly data: Data;
  /** In whole milliseconds of the wall clock. Undefined means never. */
  readonly endsAt: number | undefined;
}

/**
 * Is notified of every string that is written, every expiry that is set, and every key that a
 * command deletes.
 */
export interface Witness {
  wrote(key: string, text: string): void;
  /** `endsAt` is the first instant, by the wall clock, at which the key no longer exists. */
  keeps(key: string, endsAt: number): void;
  deleted(key: string): void;
}

export interface KeySpaceParts {
  /** The wall clock. */
  readonly now: () => number;
  readonly chance: Chance;
  readonly witness: Witness;
  readonly publish: (channel: string, message: string) => number;
  readonly info: () => string;
}

export type Copy = ReadonlyMap<string, Entry>;

const OK = new Status("OK");
const WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";

export class KeySpace {
  readonly #parts: KeySpaceParts;
  #entries = new Map<string, Entry>();

  constructor(parts: KeySpaceParts) {
    this.#parts = parts;
  }

  /** Runs one command, as a script issues it. */
  run(words: readonly string[]): Reply {
    const [name = ""] = words;
    const command = this.#commands[name] ?? this.#commands[name.toUpperCase()];
    if (command === undefined) throw new RedisError(`ERR unknown command '${name}'`);
    return command(words);
  }

  /** Whether the key exists now. */
  has(key: string): boolean {
    return this.#entry(key) !== undefined;
  }

  /** The data of a replica that is up to date. */
  copy(): Copy {
    const copy = new Map<string, Entry>();
    for (const [key, { data, endsAt }] of this.#entries) {
      const own = typeof data === "string" ? data : Array.isArray(data) ? [...data] : new Set(data);
      copy.set(key, { data: own, endsAt });
    }
    return copy;
  }

  /** Promotes a replica that has only this copy. */
  replace(copy: Copy): void {
    this.#entries = new Map(copy);
  }

  /** Every string, with its key. */
  *texts(): Generator<[key: string, text: string]> {
    for (const [key, { data }] of this.#entries) if (typeof data === "string") yield [key, data];
  }

  #now(): number {
    return Math.floor(this.#parts.now());
  }

  #entry(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry?.endsAt === undefined || this.#now() <= entry.endsAt) return entry;
    this.#entries.delete(key);
    return undefined;
  }

  #text(key: string): string | null {
    const data = this.#entry(key)?.data;
    if (data === undefined) return null;
    if (typeof data !== "string") throw new RedisError(WRONG_TYPE);
    return data;
  }

  #list(key: string): string[] | undefined {
    const data = this.#entry(key)?.data;
    if (data === undefined || Array.isArray(data)) return data;
    throw new RedisError(WRONG_TYPE);
  }

  #set(key: string): Set<string> | undefined {
    const data = this.#entry(key)?.data;
    if (data === undefined || data instanceof Set) return data;
    throw new RedisError(WRONG_TYPE);
  }

  #write(key: string, data: string, endsAt?: number): void {
    this.#entries.set(key, { data, endsAt });
    this.#parts.witness.wrote(key, data);
    if (endsAt !== undefined) this.#parts.witness.keeps(key, endsAt + 1);
  }

  #increase(key: string, by: string): number {
    const next = BigInt(integerText(this.#text(key) ?? "0")) + BigInt(integerText(by));
    this.#entries.set(key, { data: String(next), endsAt: this.#entry(key)?.endsAt });
    return Number(next);
  }

  /** An empty list or set does not exist. */
  #dropEmpty(key: string, size: number): void {
    if (size === 0) this.#entries.delete(key);
  }

  readonly #commands: Readonly<Record<string, (words: readonly string[]) => Reply>> = {
    GET: ([, key = ""]) => this.#text(key),
    MGET: (words) =>
      words.slice(1).map((key) => {
        const data = this.#entry(key)?.data;
        return typeof data === "string" ? data : null;
      }),
    SET: ([, key = "", text = "", ...options]) => {
      const [option, ms] = options;
      if (option !== undefined && (option !== "PX" || options.length !== 2))
        throw new RedisError("ERR syntax error");
      this.#write(key, text, ms === undefined ? undefined : this.#now() + integer(ms));
      return OK;
    },
    MSET: (pairs) => {
      for (let at = 1; at < pairs.length; at += 2)
        this.#write(pairs[at] ?? "", pairs[at + 1] ?? "");
      return OK;
    },
    INCR: ([, key = ""]) => this.#increase(key, "1"),
    INCRBY: ([, key = "", by = ""]) => this.#increase(key, by),
    INFO: () => this.#parts.info(),
    EXISTS: (words) => words.slice(1).filter((key) => this.has(key)).length,
    DEL: (words) =>
      words.slice(1).filter((key) => {
        if (!this.has(key)) return false;
        this.#entries.delete(key);
        this.#parts.witness.deleted(key);
        return true;
      }).length,
    PEXPIRE: ([, key = "", ms = ""]) => {
      const entry = this.#entry(key);
      if (entry === undefined) return 0;
      const endsAt = this.#now() + integer(ms);
      this.#entries.set(key, { ...entry, endsAt });
      this.#parts.witness.keeps(key, endsAt + 1);
      return 1;
    },
    PTTL: ([, key = ""]) => {
      const entry = this.#entry(key);
      if (entry === undefined) return -2;
      return entry.endsAt === undefined ? -1 : entry.endsAt - this.#now();
    },
    TIME: () => {
      const micros = Math.floor(this.#parts.now() * 1000);
      return [String(Math.floor(micros / 1e6)), String(micros % 1e6)];
    },
    PUBLISH: ([, channel = "", message = ""]) => this.#parts.publish(channel, message),
    RPUSH: ([, key = "", ...items]) => {
      const list = this.#list(key) ?? [];
      if (list.length === 0) this.#entries.set(key, { data: list, endsAt: undefined });
      return list.push(...items);
    },
    LINDEX: ([, key = "", at = ""]) => this.#list(key)?.at(integer(at)) ?? null,
    LPOP: ([, key = ""]) => {
      const list = this.#list(key);
      const first = list?.shift() ?? null;
      this.#dropEmpty(key, list?.length ?? 1);
      return first;
    },
    LPOS: ([, key = "", item = ""]) => {
      const at = this.#list(key)?.indexOf(item) ?? -1;
      return at < 0 ? null : at;
    },
    LREM: ([, key = "", count = "", item = ""]) => {
      const most = integer(count);
      if (most < 0) throw new RedisError("ERR the model of Redis knows no LREM from the end");
      const list = this.#list(key);
      if (list === undefined) return 0;
      let found = 0;
      const kept = list.filter((one) => one !== item || (most > 0 && ++found > most));
      const removed = list.length - kept.length;
      list.splice(0, list.length, ...kept);
      this.#dropEmpty(key, list.length);
      return removed;
    },
    LRANGE: ([, key = "", from = "", to = ""]) => {
      const list = this.#list(key) ?? [];
      const end = integer(to);
      return list.slice(integer(from), end < 0 ? list.length + end + 1 : end + 1);
    },
    ZADD: ([, key = "", score = "", member = ""]) => {
      if (integer(score) !== 0) throw new RedisError("ERR the model of Redis knows score 0 only");
      const set = this.#set(key) ?? new Set<string>();
      if (set.size === 0) this.#entries.set(key, { data: set, endsAt: undefined });
      const isNew = !set.has(member);
      set.add(member);
      return isNew ? 1 : 0;
    },
    ZREM: ([, key = "", ...members]) => {
      const set = this.#set(key);
      if (set === undefined) return 0;
      const removed = members.filter((member) => set.delete(member)).length;
      this.#dropEmpty(key, set.size);
      return removed;
    },
    ZRANDMEMBER: ([, key = "", count = ""]) => {
      const left = [...(this.#set(key) ?? [])];
      const most = integer(count);
      if (left.length <= most) return left;
      return Array.from({ length: most }, () => {
        const [drawn = ""] = left.splice(this.#parts.chance.below(left.length), 1);
        return drawn;
      });
    },
    ZRANGEBYLEX: ([, key = "", from = "", to = "", , offset = "0", count = "-1"]) => {
      const most = integer(count);
      const found = [...(this.#set(key) ?? [])]
        .filter((member) => isAfter(member, from) && isBefore(member, to))
        .sort((one, other) => (one < other ? -1 : 1))
        .slice(integer(offset));
      return most < 0 ? found : found.slice(0, most);
    },
  };
}

function integerText(text: string): string {
  if (!/^-?\d+$/.test(text)) throw new RedisError("ERR value is not an integer or out of range");
  return text;
}

function integer(text: string): number {
  return Number(integerText(text));
}

function isAfter(member: string, from: string): boolean {
  const start = from.slice(1);
  return from === "-" || (from.startsWith("[") ? member >= start : member > start);
}

function isBefore(member: string, to: string): boolean {
  const end = to.slice(1);
  return to === "+" || (to.startsWith("[") ? member <= end : member < end);
}
