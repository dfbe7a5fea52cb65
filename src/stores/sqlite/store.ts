// The store contract on an open file. grant.ts takes the steps, batch.ts makes transactions of
// them, wait.ts reports to waiters and holders what other processes did.

import type { HostClock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import type { Disk } from "../../clients/sqlite/disk.ts";
import type { Connection } from "../../clients/sqlite/driver.ts";
import { failure, isBusy } from "../../clients/sqlite/failures.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { decodeRecord } from "../../core/record.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import type { Fact } from "../shared/facts.ts";
import { Batch, type WriteOptions } from "./batch.ts";
import { Commits } from "./commits.ts";
import { Grants, type GrantsParts } from "./grant.ts";
import { type Moment, Tables } from "./tables.ts";
import { Notices } from "./wait.ts";

export interface OpenedFile {
  readonly connection: Connection;
  readonly file: string;
  readonly disk: Disk;
}

/** How often a read is tried again while another process recovers the file. */
const READ_TRIES = 200;
/** A request that frees something is written even if the process exits first. */
const FREES: WriteOptions = { evenAtExit: true };
/** The time limit of an expiry check. No caller waits for it. */
const CHECK_LIMIT_MS = 1_000;

export class SqliteStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #connection: Connection;
  readonly #file: string;
  readonly #parts: StoreParts;
  readonly #host: HostClock;
  readonly #tables: Tables;
  readonly #batch: Batch;
  readonly #commits: Commits;
  readonly #notices: Notices;
  readonly #grantsParts: GrantsParts;
  readonly #closing = new AbortController();
  #latest: Moment | undefined;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor({ connection, file, disk }: OpenedFile, parts: StoreParts) {
    const { clock, random, hostClock } = parts;
    this.#connection = connection;
    this.#file = file;
    this.#parts = parts;
    this.#host = hostClock;
    const tables = new Tables(connection, hostClock.stepMs);
    const commits = new Commits({ connection, file, disk, clock });
    this.#tables = tables;
    this.#commits = commits;
    this.#grantsParts = { tables, wallNow: () => clock.wallNow() };
    this.#notices = new Notices({
      tables,
      commits,
      clock,
      closing: this.#closing.signal,
      now: () => this.#now(),
      read: (work) => this.#read(work),
      checkExpiry: (resource) =>
        this.#transact(CHECK_LIMIT_MS, this.#readNow, (grants) => grants.checkExpiry(resource)),
    });
    const onCommit = (): void => commits.notifyOwn();
    const { onExit } = parts;
    this.#batch = new Batch({ connection, file, disk, clock, random, onCommit, onExit });
    this.guarantees = {
      store: "sqlite",
      tokenSource:
        "a counter in the resource's row, raised by the granting transaction to the host's wall clock at least",
      tokenFalls:
        "when the file is deleted or replaced by an older copy and the host's wall clock was set back",
      expiryClock: "the host's boot clock, which runs on in suspend",
      ttlStepMs: 1,
      expiryLagMs: 2 * hostClock.stepMs,
      wakeUp: "push",
      fifo: true,
      durable: true,
    };
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const { sessionId: id, holderId, limitMs, events } = request;
    const ttlMs = Math.ceil(request.ttlMs);
    const quietAfterMs = Math.ceil(request.quietAfterMs ?? ttlMs);
    await this.#transact(limitMs, this.#readNow, (grants, at) => {
      grants.sweep();
      this.#tables.addSession({ id, holderId, ttlMs, quietAfterMs }, at);
    });
    this.#notices.openSession(id, ttlMs, events);
    return { ttlMs };
  }

  async grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const { sessionId, resource, attempt, limitMs } = request;
    let outcome = await this.#transact(limitMs, this.#readLately, (grants) =>
      grants.grant(request),
    );
    // A grant is certain. A refusal may be due to a reading of the clock that is a step old.
    if (outcome.kind === "busy" && !this.#isLatestNow())
      outcome = await this.#transact(limitMs, this.#readNow, (grants) => grants.grant(request));
    if (outcome.kind === "queued") this.#notices.queued(sessionId, resource, attempt);
    if (outcome.kind === "granted") this.#notices.granted(sessionId, resource, attempt);
    return outcome;
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, limitMs } = request;
    const outcome = await this.#transact(limitMs, this.#readNow, (grants) => grants.renew(request));
    if (outcome.kind === "renewed") this.#notices.renewed(sessionId);
    else this.#notices.endSession(sessionId);
    return outcome;
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    this.#notices.released(request.sessionId, request.resource);
    const release = (grants: Grants): boolean => grants.release(request);
    const isReleased = await this.#transact(request.limitMs, this.#readLately, release, FREES);
    return { kind: isReleased ? "released" : "notHeld" };
  }

  withdraw(request: contract.AttemptRequest): Promise<void> {
    this.#notices.withdrawn(request.sessionId, request.resource, request.attempt);
    const withdraw = (grants: Grants): void => grants.withdraw(request);
    return this.#transact(request.limitMs, this.#readNow, withdraw, FREES);
  }

  endSession({ sessionId, limitMs }: contract.SessionRequest): Promise<void> {
    this.#notices.endSession(sessionId);
    const end = (grants: Grants): void => grants.endSession(sessionId);
    return this.#transact(limitMs, this.#readNow, end, FREES);
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { resource, consistency } = request;
    const range = { prefix: resource, limit: 1 };
    const [first] = await this.#read(() => this.#tables.held(range, this.#now(), decodeRecord));
    const holder = first?.resource === resource ? first.holder : undefined;
    return { resource, holder, evidence: { consistency, ageMs: 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const range = { ...request, limit: request.limit + 1 };
    const held = await this.#read(() => this.#tables.held(range, this.#now()));
    const leases = held.slice(0, request.limit);
    return { leases, next: held.length > request.limit ? leases.at(-1)?.resource : undefined };
  }

  async *watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const seen = new Map<string, bigint>();
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    const subscription = this.#commits.subscribe();
    const range = { prefix: request.prefix, limit: -1 };
    try {
      while (!signal.aborted) {
        const held = await this.#read(() => this.#tables.held(range, this.#now()));
        yield* changes(seen, held);
        request.onCaughtUp?.();
        await subscription.next(firstExpiryMs(held), signal).catch(() => undefined);
      }
    } finally {
      subscription.close();
      unlink();
    }
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const isRevoked = await this.#transact(request.limitMs, this.#readNow, (grants) =>
      grants.revoke(request),
    );
    return { kind: isRevoked ? "revoked" : "notHeld" };
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new StoreUnavailableError(`${this.#file} is closed.`, { applied: "no" }));
    this.#batch.close();
    this.#notices.close();
    this.#commits.close();
    this.#connection.close();
  }

  /** Takes steps in one transaction. Reports their facts after the commit. */
  async #transact<T>(
    limitMs: number,
    readClock: () => Moment,
    steps: (grants: Grants, at: Moment) => T,
    options?: WriteOptions,
  ): Promise<T> {
    const work = (): { readonly answer: T; readonly facts: readonly Fact[] } => {
      const at = readClock();
      const grants = new Grants(this.#grantsParts, at);
      return { answer: steps(grants, at), facts: grants.facts };
    };
    const { answer, facts } = await this.#batch.write(limitMs, work, options);
    for (const fact of facts) this.#notices.deliver(fact);
    return answer;
  }

  #now(): Moment {
    this.#readAt = this.#parts.clock.now();
    this.#latest = { bootId: this.#host.bootId, nowMs: this.#host.now() };
    return this.#latest;
  }

  readonly #readNow = (): Moment => this.#now();

  /**
   * A reading that may be one step old, for steps that grant or free. Sessions only seem to live
   * that much longer, and it saves a tenth of the time of a lease. It must not be used for
   * renewals: they would end a session early.
   */
  readonly #readLately = (): Moment => {
    const isFresh = this.#parts.clock.now() - this.#readAt < this.#host.stepMs;
    return isFresh && this.#latest !== undefined ? this.#latest : this.#now();
  };

  #isLatestNow(): boolean {
    const before = this.#latest?.nowMs;
    return before === this.#now().nowMs;
  }

  /** In WAL mode readers are blocked only while another process recovers the file. */
  async #read<T>(work: () => T): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      this.#closing.signal.throwIfAborted();
      try {
        return work();
      } catch (error) {
        if (!isBusy(error) || tries >= READ_TRIES) throw failure(error, this.#file);
        await new Promise<void>((again) =>
          this.#parts.clock.setTimer(again, 1, { keepAlive: true }),
        );
      }
    }
  }
}
