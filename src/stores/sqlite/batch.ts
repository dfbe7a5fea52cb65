// The only place that writes. Requests of the same turn of the event loop share one transaction,
// and so one flush to the disk. While another process has the write lock, this file tries again
// without blocking the event loop, and often: SQLite's own handler sleeps for up to 100 ms between
// two tries and starves one of two busy writers.

import type { Clock, Random } from "../../async/clock.ts";
import type { Disk } from "../../clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../clients/sqlite/driver.ts";
import { failure, isBusy } from "../../clients/sqlite/failures.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import type { StoreParts } from "../contract.ts";

export interface WriteOptions {
  /** Write it even if the process exits first. For requests that free something. */
  readonly evenAtExit?: boolean;
}

interface Job extends WriteOptions {
  readonly work: () => unknown;
  readonly giveUpAt: number;
  readonly limitMs: number;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Bounds how long one transaction keeps the lock and the event loop. */
const BATCH_MAX = 256;
/**
 * The wait between two tries for the lock is drawn between these: short compared with a ttl, long
 * compared with a commit.
 */
const RETRY_MIN_MS = 0.2;
const RETRY_MAX_MS = 2;
/**
 * This many failed tries mean a crowd of writers. Their tries would take the processors from the
 * one that has the lock, so they become rare.
 */
const CROWD_TRIES = 4;
const RETRY_CROWD_MS = 16;
/**
 * A writer that has waited this long for the lock tries often again, so that it does not starve. In
 * a crowd most waits are shorter: with 20 ms, 32 saturating writers reached a third of the commits.
 */
const PATIENCE_MS = 100;

/** How long a process that exits waits for the lock. */
const EXIT_WAIT_MS = 100;

/**
 * How often to check that the file is still the one that was opened. Checking before every write
 * would take a tenth of the time of a lease, and would gain little: leases that are held when a
 * person replaces the file continue until their next renewal anyway.
 */
const IDENTITY_MS = 10;
/**
 * The same for the files next to it. Reading the state of a file that is being written makes its
 * next flush slower by half.
 */
const SIDE_IDENTITY_MS = 250;

export interface BatchParts {
  readonly connection: Connection;
  readonly file: string;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
  /** Called after every commit that changed something. */
  onCommit(): void;
  readonly onExit?: StoreParts["onExit"] | undefined;
}

export class Batch {
  readonly #parts: BatchParts;
  readonly #realFile: string;
  readonly #identity: string;
  readonly #sideIdentity: string;
  #checkAt = 0;
  #sideCheckAt = 0;
  /** Once true, it stays true: what we write goes to files that no other process has. */
  #orphaned = false;
  readonly #begin: Statement;
  readonly #commit: Statement;
  #jobs: Job[] = [];
  #scheduled = false;
  #closed = false;
  readonly #stopListening: (() => void) | undefined;
  #failedTries = 0;
  #waitingSince = 0;
  /** How many of the next jobs get a transaction of their own. */
  #alone = 0;

  constructor(parts: BatchParts) {
    this.#parts = parts;
    this.#realFile = parts.disk.realPathOf(parts.file);
    this.#identity = parts.disk.identityOf(parts.file);
    this.#sideIdentity = this.#findSideIdentity();
    this.#begin = parts.connection.prepare("BEGIN IMMEDIATE");
    this.#commit = parts.connection.prepare("COMMIT");
    this.#stopListening = parts.onExit?.(() => this.#writeAtExit());
  }

  /** Runs the work inside a transaction. Resolves when it is on the disk. */
  write<T>(limitMs: number, work: () => T, { evenAtExit }: WriteOptions = {}): Promise<T> {
    if (this.#closed) return Promise.reject(this.#closedError());
    return new Promise<T>((resolve, reject) => {
      const giveUpAt = this.#parts.clock.now() + limitMs;
      this.#jobs.push({
        work,
        giveUpAt,
        limitMs,
        evenAtExit: evenAtExit === true,
        resolve: resolve as (value: unknown) => void,
        reject,
      });
      this.#schedule();
    });
  }

  close(): void {
    this.#closed = true;
    this.#stopListening?.();
    for (const job of this.#jobs.splice(0)) job.reject(this.#closedError());
  }

  /**
   * The process exits, and no timer runs any more: a release that withLease() has not awaited would
   * be lost. Waits a moment for the lock, which blocks nothing now.
   */
  #writeAtExit(): void {
    this.#jobs = this.#jobs.filter(({ evenAtExit }) => evenAtExit === true);
    if (this.#jobs.length === 0) return;
    this.#parts.connection.exec(`PRAGMA busy_timeout = ${EXIT_WAIT_MS}`);
    this.#turn();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#parts.clock.soon(() => this.#turn());
  }

  #turn(): void {
    this.#scheduled = false;
    if (this.#closed || this.#jobs.length === 0) return;
    try {
      this.#checkIdentity();
      this.#begin.run();
    } catch (error) {
      if (isBusy(error)) this.#tryLater();
      else for (const job of this.#jobs.splice(0)) job.reject(failure(error, this.#parts.file));
      return;
    }
    this.#failedTries = 0;
    const batch = this.#jobs.splice(0, this.#alone > 0 ? 1 : BATCH_MAX);
    this.#alone = Math.max(0, this.#alone - batch.length);
    this.#transact(batch);
    if (this.#jobs.length > 0) this.#schedule();
  }

  #transact(batch: readonly Job[]): void {
    const { file } = this.#parts;
    let committing = false;
    let answers: unknown[];
    try {
      answers = batch.map((job) => job.work());
      committing = true;
      this.#commit.run();
    } catch (error) {
      this.#rollBack();
      if (!committing && batch.length > 1) {
        // One of them has failed. Each is tried again in a transaction of its own.
        this.#jobs.unshift(...batch);
        this.#alone = batch.length;
        return;
      }
      for (const job of batch) job.reject(failure(error, file, committing));
      return;
    }
    for (const [index, job] of batch.entries()) job.resolve(answers[index]);
    this.#parts.onCommit();
  }

  /** Some errors have already ended the transaction. Then there is nothing to roll back. */
  #rollBack(): void {
    try {
      this.#parts.connection.exec("ROLLBACK");
    } catch {
      // Nothing was open.
    }
  }

  #tryLater(): void {
    const { clock, random, file } = this.#parts;
    const now = clock.now();
    this.#jobs = this.#jobs.filter((job) => {
      if (now < job.giveUpAt) return true;
      const message = `The write lock of ${file} was not free within ${Math.round(job.limitMs)} ms.`;
      job.reject(new StoreUnavailableError(message, { applied: "no" }));
      return false;
    });
    if (this.#jobs.length === 0) return;
    this.#scheduled = true;
    if (this.#failedTries === 0) this.#waitingSince = now;
    this.#failedTries += 1;
    const growth = 2 ** Math.max(0, this.#failedTries - CROWD_TRIES);
    const isPatient = now - this.#waitingSince < PATIENCE_MS;
    const maxMs = isPatient ? Math.min(RETRY_MAX_MS * growth, RETRY_CROWD_MS) : RETRY_MAX_MS;
    const delayMs = RETRY_MIN_MS + random.next() * (maxMs - RETRY_MIN_MS);
    clock.setTimer(() => this.#turn(), delayMs, { keepAlive: true });
  }

  /**
   * A file that was deleted or replaced still accepts our writes, but no other process sees them,
   * so two processes could hold one lease. The main file is checked by the path that the user gave,
   * because a link in that path may now point to another file.
   */
  #checkIdentity(): void {
    const { file, disk, clock } = this.#parts;
    const now = clock.now();
    if (now >= this.#sideCheckAt) {
      this.#sideCheckAt = now + SIDE_IDENTITY_MS;
      this.#orphaned ||= this.#findSideIdentity() !== this.#sideIdentity;
    }
    if (now >= this.#checkAt) {
      this.#checkAt = now + IDENTITY_MS;
      this.#orphaned ||= disk.identityOf(file) !== this.#identity;
    }
    if (!this.#orphaned) return;
    throw new StoreUnavailableError(
      `${file} (or its -wal or -shm file) was deleted or replaced while it was open. Stop all processes that use it before you do that.`,
      { applied: "no" },
    );
  }

  #closedError(): StoreUnavailableError {
    return new StoreUnavailableError(`${this.#parts.file} is closed.`, { applied: "no" });
  }

  /**
   * Of the log and the lock table, which exist while the file is open. They are next to the real
   * file, not next to a link to it.
   */
  #findSideIdentity(): string {
    const { disk } = this.#parts;
    return `${disk.identityOf(`${this.#realFile}-wal`)} ${disk.identityOf(`${this.#realFile}-shm`)}`;
  }
}
