// The data of one Redis server, as far as our scripts use it: strings, hashes, sets and sorted
// sets, each with or without an expiry. Redis reads its wall clock in whole milliseconds, and a key
// exists until the millisecond of its expiry has passed.

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

class Hash extends Map<string, string> {}
/** The score of each member. */
class SortedSet extends Map<string, number> {}

type Data = string | Hash | Set<string> | SortedSet;

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
      copy.set(key, { data: copyData(data), endsAt });
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

  /** The collection of the key. An empty one that does not exist yet is added if `adds` is true. */
  #collection<C extends Hash | Set<string> | SortedSet>(
    key: string,
    type: new () => C,
    adds = false,
  ): C {
    const data = this.#entry(key)?.data;
    if (data === undefined) {
      const empty = new type();
      if (adds) this.#entries.set(key, { data: empty, endsAt: undefined });
      return empty;
    }
    if (data instanceof type) return data;
    throw new RedisError(WRONG_TYPE);
  }

  /** Deletes members and returns how many there were. An empty collection does not exist. */
  #remove(
    key: string,
    type: new () => Hash | Set<string> | SortedSet,
    members: readonly string[],
  ): number {
    const found = this.#collection(key, type);
    const removed = members.filter((member) => found.delete(member)).length;
    if (removed > 0 && found.size === 0) this.#entries.delete(key);
    return removed;
  }

  /** The members of a sorted set in order: by score, then by bytes. */
  #sorted(key: string): [member: string, score: number][] {
    return [...this.#collection(key, SortedSet)].sort(
      ([one, low], [other, high]) => low - high || (one < other ? -1 : 1),
    );
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
    HSET: ([, key = "", field = "", text = ""]) => {
      const hash = this.#collection(key, Hash, true);
      const isNew = !hash.has(field);
      hash.set(field, text);
      return isNew ? 1 : 0;
    },
    HGET: ([, key = "", field = ""]) => this.#collection(key, Hash).get(field) ?? null,
    HDEL: ([, key = "", ...fields]) => this.#remove(key, Hash, fields),
    HKEYS: ([, key = ""]) => [...this.#collection(key, Hash).keys()],
    HLEN: ([, key = ""]) => this.#collection(key, Hash).size,
    SADD: ([, key = "", member = ""]) => {
      const set = this.#collection<Set<string>>(key, Set, true);
      const isNew = !set.has(member);
      set.add(member);
      return isNew ? 1 : 0;
    },
    SREM: ([, key = "", ...members]) => this.#remove(key, Set, members),
    SMEMBERS: ([, key = ""]) => [...this.#collection<Set<string>>(key, Set)],
    ZADD: ([, key = "", score = "", member = ""]) => {
      const set = this.#collection(key, SortedSet, true);
      const isNew = !set.has(member);
      set.set(member, integer(score));
      return isNew ? 1 : 0;
    },
    ZREM: ([, key = "", ...members]) => this.#remove(key, SortedSet, members),
    ZCARD: ([, key = ""]) => this.#collection(key, SortedSet).size,
    ZRANGE: ([, key = "", from = "", to = ""]) => {
      if (integer(from) < 0 || integer(to) < 0)
        throw new RedisError("ERR the model of Redis counts from the start only");
      const members = this.#sorted(key).map(([member]) => member);
      return members.slice(integer(from), integer(to) + 1);
    },
    ZREVRANGEBYSCORE: ([, key = "", max = "", min = "", , offset = "0", count = "-1"]) => {
      const [high, low, most] = [integer(max), integer(min), integer(count)];
      const found = this.#sorted(key).filter(([, score]) => score >= low && score <= high);
      const members = found.reverse().map(([member]) => member);
      return members.slice(integer(offset), most < 0 ? undefined : integer(offset) + most);
    },
    ZRANDMEMBER: ([, key = "", count = ""]) => {
      const left = [...this.#collection(key, SortedSet).keys()];
      const most = integer(count);
      if (left.length <= most) return left;
      return Array.from({ length: most }, () => {
        const [drawn = ""] = left.splice(this.#parts.chance.below(left.length), 1);
        return drawn;
      });
    },
    ZRANGEBYLEX: ([, key = "", from = "", to = "", , offset = "0", count = "-1"]) => {
      const most = integer(count);
      const found = [...this.#collection(key, SortedSet).keys()]
        .filter((member) => isAfter(member, from) && isBefore(member, to))
        .sort((one, other) => (one < other ? -1 : 1))
        .slice(integer(offset));
      return most < 0 ? found : found.slice(0, most);
    },
  };
}

function copyData(data: Data): Data {
  if (typeof data === "string") return data;
  if (data instanceof Set) return new Set(data);
  return data instanceof Hash ? new Hash(data) : new SortedSet(data);
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
