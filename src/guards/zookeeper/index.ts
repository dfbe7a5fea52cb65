// The guard for data in ZooKeeper. Each resource has a node with its highest token, and each
// guarded write is one multi that checks the version of that node (or sets its data) together with
// the user's writes. The guard uses the same client as the store and takes the same address.

import type { Call } from "../../clients/zookeeper/call.ts";
import {
  CREATE,
  check,
  create,
  ERROR,
  getData,
  type Message,
  readDataAndStat,
  setData,
  sync,
} from "../../clients/zookeeper/messages.ts";
import {
  checkZooKeeperOptions,
  type Settings,
  type ZooKeeperOptions,
} from "../../clients/zookeeper/options.ts";
import { openReader, type Reader } from "../../clients/zookeeper/reader.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { padToken } from "../../core/token.ts";
// biome-ignore lint/style/noRestrictedImports: guards are created without connect()
import { systemParts } from "../../runtime/system.ts";
import {
  checkBound,
  checkLimit,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  resolveLastingSource,
  splitArguments,
  type TokenSource,
} from "../guard.ts";
import { type Conditional, ConditionalWrites, type Seen } from "../shared/conditional.ts";
import { LazyConnection, type Reach, runRequest } from "../shared/connection.ts";
import { checkResetToken, type ResetOptions } from "../shared/reset.ts";
import { parseStoredToken } from "../shared/stored.ts";
import {
  explainRejection,
  toMessages,
  type ZooKeeperWrite,
  type ZooKeeperWritten,
} from "./writes.ts";

export type { ZooKeeperDial } from "../../clients/zookeeper/hosts.ts";
export type { ZooKeeperOptions } from "../../clients/zookeeper/options.ts";
export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";
export type { ResetOptions } from "../shared/reset.ts";
export type { ZooKeeperData, ZooKeeperWrite, ZooKeeperWritten } from "./writes.ts";

/** Options of zookeeperGuard(). */
export interface ZooKeeperGuardOptions extends GuardOptions {
  /**
   * The time limit of a request, in milliseconds. Too small: a slow ensemble looks like an outage.
   * Too large: a holder detects an outage late. @default 5000
   */
  readonly limitMs?: number | undefined;
}

const ZOOKEEPER_GUARD_OPTIONS: OptionNames<ZooKeeperGuardOptions> = {
  ...GUARD_OPTIONS,
  limitMs: true,
};

/** A guard for data in ZooKeeper. It connects on first use. */
export interface ZooKeeperGuard extends Guard, AsyncDisposable {
  /**
   * Compares the token and does all of the writes in one multi, or none. Resolves with one entry
   * per write. Without a source, it uses the lease of the `lease.run()` around the call.
   */
  write(source: TokenSource, writes: readonly ZooKeeperWrite[]): Promise<ZooKeeperWritten[]>;
  /** The same, with the lease of the `lease.run()` around the call. */
  write(writes: readonly ZooKeeperWrite[]): Promise<ZooKeeperWritten[]>;
  /** Raises the highest token to that of the source without writing anything else. */
  advance(source?: TokenSource): Promise<void>;
  /** Resolves with the highest token of the resource, or undefined before the first. */
  highest(resource: string): Promise<bigint | undefined>;
  /** Closes the connection. Later calls reject with ClosedError. */
  close(): Promise<void>;
  /** The names of the methods above that write, for boundedBy(). */
  readonly writeMethods: readonly "write"[];
}

/**
 * Takes a zookeeper: URL, or the options of zookeeperStore(). All writers of the same data must use
 * the same prefix.
 */
export function zookeeperGuard(
  target: string | ZooKeeperOptions,
  options: ZooKeeperGuardOptions = {},
): ZooKeeperGuard {
  return new GuardOnZooKeeper(target, options);
}

/**
 * Deletes the highest token of a resource, so that the guard admits the next token, whatever its
 * value. It then also admits late writes of every former holder. Call it only when no process is
 * left that holds, or held, a lease of the old store. Resolves with false if the highest is another
 * token, and with true if none is left. Open guards cache the old token: restart their processes.
 */
export async function resetHighest(
  target: string | ZooKeeperOptions,
  resource: string,
  options: ResetOptions,
): Promise<boolean> {
  const guard = new GuardOnZooKeeper(target, {});
  try {
    return await guard.reset(checkResource(resource), checkResetToken(options));
  } finally {
    await guard.close();
  }
}

/**
 * The data of the node after a reset. The node is not deleted, because a new one would count its
 * versions from 0, and a guard that has cached the old version could take it for unchanged.
 */
const NONE = "0".repeat(39);

/** The version of the node, or undefined if there is no node. */
type Version = number | undefined;

class GuardOnZooKeeper implements ZooKeeperGuard {
  readonly writeMethods = ["write"] as const;
  readonly #settings: Settings;
  readonly #reader: LazyConnection<Reader>;
  readonly #writes = new ConditionalWrites<Version>();
  readonly #bound: string | undefined;
  readonly #limitMs: number;

  constructor(target: string | ZooKeeperOptions, options: ZooKeeperGuardOptions) {
    const given = typeof target === "string" ? { url: target } : target;
    if (typeof given !== "object" || given === null) {
      throw new InvalidArgumentError(
        "zookeeperGuard() needs a zookeeper: URL, or the options of zookeeperStore().",
      );
    }
    const settings = checkZooKeeperOptions(given, "zookeeperGuard()");
    this.#settings = settings;
    this.#bound = checkBound("zookeeperGuard()", options, ZOOKEEPER_GUARD_OPTIONS);
    this.#limitMs = checkLimit("limitMs", options.limitMs ?? 5_000);
    this.#reader = new LazyConnection(
      "The ZooKeeper guard",
      () => openReader(settings, systemParts().clock, [settings.names.guards]),
      (reader) => reader.close(new Error("the guard was closed")),
    );
  }

  async write(
    ...args: [TokenSource, readonly ZooKeeperWrite[]] | [readonly ZooKeeperWrite[]]
  ): Promise<ZooKeeperWritten[]> {
    const [given, writes] = splitArguments(args);
    const messages = toMessages(writes, this.#settings);
    return this.#step(resolveLastingSource(given, this.#bound), messages);
  }

  async advance(given?: TokenSource): Promise<void> {
    await this.#step(resolveLastingSource(given, this.#bound), []);
  }

  async highest(resource: string): Promise<bigint | undefined> {
    return (await this.#read(checkResource(resource))).highest;
  }

  /**
   * Clears the node if it still has this token. Not part of the interface, because holders never
   * call it.
   */
  async reset(resource: string, highest: bigint): Promise<boolean> {
    const { highest: found, mark } = await this.#read(resource);
    if (found === undefined || mark === undefined) return true;
    if (found !== highest) return false;
    return this.#send(resource, "writes", async (call) => {
      const write = setData(this.#settings.names.highest(resource), NONE, mark);
      return (await call.ask(write, ERROR.badVersion)).error === 0;
    });
  }

  close(): Promise<void> {
    return this.#reader.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #step(source: TokenSource, messages: readonly Message[]): Promise<ZooKeeperWritten[]> {
    const step: Conditional<Version, ZooKeeperWritten[]> = {
      read: () => this.#read(source.resource),
      write: (token, seen) => this.#write(source.resource, { token, seen, messages }),
    };
    return this.#writes.run(source, step);
  }

  #read(resource: string): Promise<Seen<Version>> {
    const path = this.#settings.names.highest(resource);
    return this.#send(resource, "reads", async (call) => {
      // Sent together: sync() makes the read at least as new as this request.
      const read = call.ask(getData(path), ERROR.noNode);
      const [, reply] = await Promise.all([call.send(sync(path)), read]);
      if (reply.error !== 0) return { highest: undefined, mark: undefined };
      const { data, stat } = readDataAndStat(reply.body);
      const highest = data === NONE ? undefined : parseStoredToken(data, path);
      return { highest, mark: stat.version };
    });
  }

  #write(
    resource: string,
    work: { token: bigint; seen: Seen<Version>; messages: readonly Message[] },
  ): ReturnType<Conditional<Version, ZooKeeperWritten[]>["write"]> {
    const { token, seen, messages } = work;
    const path = this.#settings.names.highest(resource);
    const comparison = this.#comparison(path, token, seen);
    return this.#send(resource, "writes", async (call) => {
      const { error, failedAt, parts } = await call.askAll([comparison, ...messages]);
      if (error === 0) {
        const version = token === seen.highest ? seen.mark : (parts[0]?.stat?.version ?? 0);
        const written = parts
          .slice(1)
          .map((part) => ({ path: part.path, version: part.stat?.version }));
        return { answer: written, seen: { highest: token, mark: version } };
      }
      if (failedAt > 0)
        throw explainRejection(error, failedAt - 1, { place: call.place, resource });
      // Another writer has created or raised the highest since we read it.
      const isMoved = error === (seen.mark === undefined ? ERROR.nodeExists : ERROR.badVersion);
      if (isMoved) return undefined;
      throw call.refusal(error);
    });
  }

  /**
   * The first part of every multi. It fails, and the whole multi with it, if the highest has
   * changed since we read it.
   */
  #comparison(path: string, token: bigint, { highest, mark }: Seen<Version>): Message {
    const { acl } = this.#settings;
    const data = padToken(token);
    if (mark === undefined) return create({ path, data, acl, flags: CREATE.persistent });
    return token === highest ? check(path, mark) : setData(path, data, mark);
  }

  #send<T>(resource: string, reach: Reach, work: (call: Call) => Promise<T>): Promise<T> {
    return runRequest(resource, reach, async () => {
      const reader = await runRequest(resource, "reads", () => this.#reader.get());
      return reader.run(this.#limitMs, work);
    });
  }
}
