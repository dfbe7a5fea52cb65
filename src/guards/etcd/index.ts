// The guard for data in etcd. The highest tokens are keys next to the user's keys, without an etcd
// lease, and each guarded write is one etcd transaction that compares and writes. The guard uses
// the same client as the store and takes the same address. A transaction is sent to one member,
// once, because a late copy would undo later writes of the same holder.

import type { EtcdClient } from "../../clients/etcd/client.ts";
import type { Compare, KeyValue, Op, Txn } from "../../clients/etcd/kv.ts";
import type { Names, Span } from "../../clients/etcd/names.ts";
import { openClient } from "../../clients/etcd/open.ts";
import { checkEtcdOptions, type EtcdOptions } from "../../clients/etcd/options.ts";
import { range, txn } from "../../clients/etcd/rpc.ts";
import { InvalidArgumentError, StaleTokenError } from "../../core/errors.ts";
import type { OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { padToken } from "../../core/token.ts";
import { UntrustedTokenError } from "../../core/untrusted-token.ts";
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
import { LazyConnection, runRequest } from "../shared/connection.ts";
import { checkResetToken, type ResetOptions } from "../shared/reset.ts";
import { parseStoredToken } from "../shared/stored.ts";
import { type EtcdWrite, explainWriteError, isWriteError, toOps } from "./writes.ts";

export type { EtcdTlsOptions } from "../../clients/etcd/http2-transport.ts";
export type { EtcdOptions } from "../../clients/etcd/options.ts";
export type {
  EtcdCall,
  EtcdMetadata,
  EtcdStream,
  EtcdStreamEvents,
  EtcdTransport,
} from "../../clients/etcd/transport.ts";
export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";
export type { ResetOptions } from "../shared/reset.ts";
export type { EtcdBytes, EtcdWrite } from "./writes.ts";

/** Options of etcdGuard(). */
export interface EtcdGuardOptions extends GuardOptions {
  /**
   * Set this if the leases are stored in the same etcd under the same prefix (etcdStore with the
   * same address). A write is then also rejected when its lease has ended but has no successor yet,
   * and a token that was never granted is rejected. With leases of another store, every write would
   * be rejected. @default false
   */
  readonly leasesHere?: boolean | undefined;
  /**
   * The time limit of a request, in milliseconds. Too small: a slow cluster looks like an outage.
   * Too large: a holder detects an outage late. @default 5000
   */
  readonly limitMs?: number | undefined;
}

const ETCD_GUARD_OPTIONS: OptionNames<EtcdGuardOptions> = {
  ...GUARD_OPTIONS,
  leasesHere: true,
  limitMs: true,
};

/** A guard for data in etcd. It connects on first use. */
export interface EtcdGuard extends Guard, AsyncDisposable {
  /**
   * Compares the token and does all of the writes in one transaction, or none. Resolves with the
   * etcd revision of the transaction. Without a source, it uses the lease of the `lease.run()`
   * around the call.
   */
  write(source: TokenSource, writes: readonly EtcdWrite[]): Promise<{ readonly revision: bigint }>;
  /** The same, with the lease of the `lease.run()` around the call. */
  write(writes: readonly EtcdWrite[]): Promise<{ readonly revision: bigint }>;
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
 * Takes an etcd: URL, or the options of etcdStore(). All writers of the same data must use the same
 * prefix.
 */
export function etcdGuard(target: string | EtcdOptions, options: EtcdGuardOptions = {}): EtcdGuard {
  return new GuardOnEtcd(target, options);
}

/**
 * Deletes the highest token of a resource, so that the guard admits the next token, whatever its
 * value. It then also admits late writes of every former holder. Call it only when no process is
 * left that holds, or held, a lease of the old store. Resolves with false if the highest is another
 * token, and with true if none is left. Open guards cache the old token: restart their processes.
 */
export async function resetHighest(
  target: string | EtcdOptions,
  resource: string,
  options: ResetOptions,
): Promise<boolean> {
  const guard = new GuardOnEtcd(target, {});
  try {
    return await guard.reset(checkResource(resource), checkResetToken(options));
  } finally {
    await guard.close();
  }
}

class GuardOnEtcd implements EtcdGuard {
  readonly writeMethods = ["write"] as const;
  readonly #names: Names;
  readonly #client: LazyConnection<EtcdClient>;
  readonly #writes = new ConditionalWrites<undefined>();
  readonly #bound: string | undefined;
  readonly #leasesHere: boolean;
  readonly #limitMs: number;

  constructor(target: string | EtcdOptions, options: EtcdGuardOptions) {
    const given = typeof target === "string" ? { url: target } : target;
    if (typeof given !== "object" || given === null) {
      throw new InvalidArgumentError(
        "etcdGuard() needs an etcd: URL, or the options of etcdStore().",
      );
    }
    const settings = checkEtcdOptions(given, "etcdGuard()");
    this.#names = settings.names;
    this.#bound = checkBound("etcdGuard()", options, ETCD_GUARD_OPTIONS);
    this.#leasesHere = options.leasesHere ?? false;
    this.#limitMs = checkLimit("limitMs", options.limitMs ?? 5_000);
    this.#client = new LazyConnection(
      "The etcd guard",
      () => openClient(settings, systemParts()),
      (client) => client.close(),
    );
  }

  async write(
    ...args: [TokenSource, readonly EtcdWrite[]] | [readonly EtcdWrite[]]
  ): Promise<{ readonly revision: bigint }> {
    const [given, writes] = splitArguments(args);
    const ops = toOps(writes, this.#names);
    return { revision: await this.#step(resolveLastingSource(given, this.#bound), ops) };
  }

  async advance(given?: TokenSource): Promise<void> {
    await this.#step(resolveLastingSource(given, this.#bound), []);
  }

  async highest(resource: string): Promise<bigint | undefined> {
    return (await this.#read(checkResource(resource))).highest;
  }

  /**
   * Deletes the highest token if it is still this one. Not part of the interface, because holders
   * never call it.
   */
  async reset(resource: string, highest: bigint): Promise<boolean> {
    const key = this.#names.highest(resource);
    const transaction = {
      when: [isUnchanged(key, highest)],
      yes: [{ remove: { key } }],
      no: [{ get: { key, keysOnly: true } }],
    };
    const client = await runRequest(resource, "reads", () => this.#client.get());
    const { succeeded, answers } = await runRequest(resource, "writes", () =>
      client.call(txn, transaction, { limitMs: this.#limitMs, once: true }),
    );
    return succeeded || answers[0]?.kvs.length === 0;
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #step(source: TokenSource, ops: readonly Op[]): Promise<bigint> {
    const { resource, token } = source;
    // A revision has 63 bits. A larger token would be truncated in the request.
    if (this.#leasesHere && token >= 2n ** 63n) throw notHeld(resource, token);
    const step: Conditional<undefined, bigint> = {
      read: () => this.#read(resource),
      write: (admitted, seen) => this.#write(resource, { token: admitted, seen, ops }),
    };
    return this.#writes.run(source, step);
  }

  async #read(resource: string): Promise<Seen<undefined>> {
    const key = this.#names.highest(resource);
    const { kvs } = await runRequest(resource, "reads", async () => {
      const client = await this.#client.get();
      return client.call(range, { key }, { limitMs: this.#limitMs });
    });
    return { highest: readToken(kvs[0]), mark: undefined };
  }

  async #write(
    resource: string,
    { token, seen, ops }: { token: bigint; seen: Seen<undefined>; ops: readonly Op[] },
  ): ReturnType<Conditional<undefined, bigint>["write"]> {
    const [key, queue] = [this.#names.highest(resource), this.#names.queue(resource)];
    const value = Buffer.from(padToken(token));
    const advance: Op[] = token === seen.highest ? [] : [{ put: { key, value, lease: 0n } }];
    const writes = [...advance, ...ops];
    const readHolder = { get: { ...queue, oldestFirst: true, limit: 1, keysOnly: true } };
    const transaction: Txn = {
      when: [
        isUnchanged(key, seen.highest),
        ...(this.#leasesHere ? [isYoungerThan(queue, token - 1n)] : []),
      ],
      // The oldest key of the queue holds the lease. No key is older than the token. Unless all are
      // younger, the oldest one has it.
      yes: this.#leasesHere
        ? [{ txn: { when: [isYoungerThan(queue, token)], yes: [readHolder], no: writes } }]
        : writes,
      no: [readHolder],
    };
    const client = await runRequest(resource, "reads", () => this.#client.get());
    const { succeeded, header, answers } = await runRequest(resource, "writes", () =>
      client.call(txn, transaction, {
        limitMs: this.#limitMs,
        once: true,
        foreseen: isWriteError,
      }),
    ).catch((error: unknown) => {
      throw explainWriteError(error, resource);
    });
    const inner = this.#leasesHere && succeeded ? answers[0]?.txn : undefined;
    if (succeeded && inner?.succeeded !== true) {
      return { answer: header.revision, seen: { highest: token, mark: undefined } };
    }
    if (this.#leasesHere) rejectEnded(resource, token, (inner?.answers ?? answers)[0]?.kvs[0]);
    return undefined;
  }
}

/**
 * Compares the value, which is as good as the revision: the decision depends on the value alone.
 */
function isUnchanged(key: Buffer, highest: bigint | undefined): Compare {
  return highest === undefined
    ? { key, target: "create", is: "=", than: 0n }
    : { key, target: "value", is: "=", than: Buffer.from(padToken(highest)) };
}

/** Every key of the queue is younger than this revision, and there is one. */
function isYoungerThan(queue: Span, revision: bigint): Compare {
  return { ...queue, target: "create", is: ">", than: revision };
}

function readToken(kv: KeyValue | undefined): bigint | undefined {
  return kv === undefined ? undefined : parseStoredToken(kv.value.toString(), kv.key.toString());
}

/**
 * Throws if the key of the lease, as the failed transaction found it, belongs to a newer holder or
 * does not exist.
 */
function rejectEnded(resource: string, token: bigint, lock: KeyValue | undefined): void {
  if (lock?.createRevision === token) return;
  if (lock !== undefined && lock.createRevision > token) {
    throw StaleTokenError.from({ resource, offered: token, highest: lock.createRevision });
  }
  throw notHeld(resource, token);
}

function notHeld(resource: string, token: bigint): UntrustedTokenError {
  return new UntrustedTokenError(
    `etcd holds no lease on "${resource}" with token ${token}: it has ended, or was never granted. Nothing was written.`,
    { reason: "notHeld", resource },
  );
}
