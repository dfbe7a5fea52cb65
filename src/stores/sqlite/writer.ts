// The only place that writes. Requests that come in the same turn of the event loop share one transaction and so one
// flush to the disk. The write lock is waited for without blocking the event loop, and tried for often: SQLite's own
// handler sleeps up to 100 ms between tries and starves one of two busy writers.

import type { Clock, Random } from "../../async/clock.ts";
import type { Disk } from "../../clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../clients/sqlite/driver.ts";
import { failure, isBusy } from "../../clients/sqlite/failures.ts";
import { StoreUnavailableError } from "../../core/errors.ts";

interface Job {
  readonly work: () => unknown;
  readonly giveUpAt: number;
  readonly limitMs: number;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Bounds how long one transaction keeps the lock and the event loop. */
const BATCH_MAX = 256;
/** The wait between two tries for the lock, drawn between these: short against a ttl, long against one commit. */
const RETRY_MIN_MS = 0.2;
const RETRY_MAX_MS = 2;
/** So many tries in vain mean a crowd of writers, whose tries would take the cores from the one that has the lock. */
const CROWD_TRIES = 4;
const RETRY_CROWD_MS = 16;
/**
 * A writer that has waited this long for the lock tries often again, so that it does not starve. In a crowd most waits
 * are shorter: at 20 ms, 32 saturating writers reached a third of the commits.
 */
const PATIENCE_MS = 100;

/**
 * How often it is looked whether the file is still the one that was opened. Not at every write, where it would cost a
 * tenth of a lease: leases that are held when somebody replaces the file go on until their next renewal anyway.
 */
const LOOK_MS = 10;
/** The same for the files beside it: asking for the state of a file that is being written makes its next flush slower by half. */
const SIDE_LOOK_MS = 250;

export interface WriterParts {
  readonly connection: Connection;
  readonly file: string;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
  /** Called after every commit that changed something. */
  onCommit(): void;
}

export class Writer {
  readonly #parts: WriterParts;
  readonly #realFile: string;
  readonly #identity: string;
  readonly #sideIdentity: string;
  #lookAt = 0;
  #sideLookAt = 0;
  /** Found once, it stays so: what we would write goes to files that nobody else has. */
  #orphaned = false;
  readonly #begin: Statement;
  readonly #commit: Statement;
  #jobs: Job[] = [];
  #scheduled = false;
  #closed = false;
  #triesInVain = 0;
  #waitingSince = 0;
  /** How many of the next jobs get a transaction of their own. */
  #alone = 0;

  constructor(parts: WriterParts) {
    this.#parts = parts;
    this.#realFile = parts.disk.realPathOf(parts.file);
    this.#identity = parts.disk.identityOf(parts.file);
    this.#sideIdentity = this.#findSideIdentity();
    this.#begin = parts.connection.prepare("BEGIN IMMEDIATE");
    this.#commit = parts.connection.prepare("COMMIT");
  }

  /** Runs the work inside a transaction. Resolves when it is on the disk. */
  write<T>(limitMs: number, work: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(this.#closedError());
    return new Promise<T>((resolve, reject) => {
      const giveUpAt = this.#parts.clock.now() + limitMs;
      this.#jobs.push({
        work,
        giveUpAt,
        limitMs,
        resolve: resolve as (value: unknown) => void,
        reject,
      });
      this.#schedule();
    });
  }

  close(): void {
    this.#closed = true;
    for (const job of this.#jobs.splice(0)) job.reject(this.#closedError());
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
    this.#triesInVain = 0;
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
        // One of them is at fault, and the others must not suffer for it: each tries again by itself.
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

  /** Some errors have ended the transaction already; then there is nothing to roll back. */
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
    if (this.#triesInVain === 0) this.#waitingSince = now;
    this.#triesInVain += 1;
    const growth = 2 ** Math.max(0, this.#triesInVain - CROWD_TRIES);
    const isPatient = now - this.#waitingSince < PATIENCE_MS;
    const maxMs = isPatient ? Math.min(RETRY_MAX_MS * growth, RETRY_CROWD_MS) : RETRY_MAX_MS;
    const delayMs = RETRY_MIN_MS + random.next() * (maxMs - RETRY_MIN_MS);
    clock.setTimer(() => this.#turn(), delayMs, { keepAlive: true });
  }

  /**
   * A file that was deleted or replaced still takes our writes, but no other process sees them, so two processes could hold
   * one lease. The main file is checked by the path that the user gave: a link in it may be pointed elsewhere.
   */
  #checkIdentity(): void {
    const { file, disk, clock } = this.#parts;
    const now = clock.now();
    if (now >= this.#sideLookAt) {
      this.#sideLookAt = now + SIDE_LOOK_MS;
      this.#orphaned ||= this.#findSideIdentity() !== this.#sideIdentity;
    }
    if (now >= this.#lookAt) {
      this.#lookAt = now + LOOK_MS;
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

  /** The log and the lock table, which exist while the file is open. They are beside the real file, not beside a link to it. */
  #findSideIdentity(): string {
    const { disk } = this.#parts;
    return `${disk.identityOf(`${this.#realFile}-wal`)} ${disk.identityOf(`${this.#realFile}-shm`)}`;
  }
}
