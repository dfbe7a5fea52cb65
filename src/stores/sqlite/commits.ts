// Notices the commits of other processes, without a tight poll. The kernel reports writes to the
// WAL file. `data_version` then says whether a commit is visible; the flush of the writer may still
// take a moment. A slow poll covers what the kernel may miss. Without subscriptions, nothing runs.
// The kernel reports every write to every process, so a subscription can say how late it may learn
// of one: if all processes woke at once, the next waiter would not get a processor.

import type { Clock, Timer } from "../../async/clock.ts";
import type { Disk, Watching } from "../../clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../clients/sqlite/driver.ts";
import { Wakeup } from "../shared/wakeup.ts";

/** After a report from the kernel: when to check, in milliseconds after the previous check. */
const CHECKS_MS = [0, 2, 4, 10, 25, 80];
/** How often to check if the kernel reports nothing. */
export const IDLE_CHECK_MS = 250;
/** The same where the kernel cannot report at all. */
const BLIND_CHECK_MS = 10;

export interface CommitsParts {
  readonly connection: Connection;
  readonly file: string;
  readonly disk: Disk;
  readonly clock: Clock;
}

export interface SubscribeOptions {
  /**
   * The subscription neither keeps the process alive nor learns of commits of this process.
   * @default false
   */
  readonly isBackground?: boolean;
}

export class Commits {
  readonly #file: string;
  readonly #disk: Disk;
  readonly #clock: Clock;
  readonly #version: Statement;
  readonly #subscriptions = new Set<Subscription>();
  #watcher: Watching | undefined;
  #isBlind = false;
  #timer: Timer | undefined;
  #seen: unknown;
  /** How many checks have found nothing since the last report. */
  #checks = CHECKS_MS.length;

  constructor({ connection, file, disk, clock }: CommitsParts) {
    this.#file = file;
    this.#disk = disk;
    this.#clock = clock;
    this.#version = connection.prepare("PRAGMA data_version");
  }

  /** From this call on, no commit is missed. */
  subscribe({ isBackground = false }: SubscribeOptions = {}): Subscription {
    const subscription = new Subscription(this.#clock, isBackground, {
      leave: () => {
        this.#subscriptions.delete(subscription);
        if (this.#subscriptions.size === 0) this.close();
      },
      becomeImpatient: () =>
        this.#checkIn(Math.max(CHECKS_MS[this.#checks] ?? 0, this.#patienceMs())),
    });
    const isFirst = this.#subscriptions.size === 0;
    this.#subscriptions.add(subscription);
    if (isFirst || this.#watcher === undefined) this.#start(isFirst);
    // The pending check may not keep the process alive.
    else if (!isBackground) this.#checkIn(0);
    return subscription;
  }

  /** Reports a commit of our own connection, which `data_version` does not count. */
  notifyOwn(): void {
    for (const { isBackground, wake } of [...this.#subscriptions]) if (!isBackground) wake();
  }

  close(): void {
    this.#stopWatching();
    this.#timer?.cancel();
    this.#subscriptions.clear();
  }

  #start(isFirst: boolean): void {
    if (isFirst) this.#seen = this.#readVersion();
    this.#isBlind = false;
    this.#watch();
    this.#checks = 0;
    this.#checkIn(0);
  }

  /**
   * The pages of a commit may have been written just before and become visible only in a moment, so
   * a series of checks follows.
   */
  #watch(): void {
    try {
      this.#watcher = this.#disk.watch(
        `${this.#disk.realPathOf(this.#file)}-wal`,
        () => this.#reported(),
        () => this.#goBlind(),
      );
    } catch {
      this.#isBlind = true;
    }
  }

  #stopWatching(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #goBlind(): void {
    this.#stopWatching();
    this.#isBlind = true;
    this.#checkIn(this.#idleMs());
  }

  /**
   * Every report starts the series of checks again. Reports come in bursts, one per page, so one
   * that comes right after the beginning of a series is ignored.
   */
  #reported(): void {
    if (this.#checks === 0) return;
    this.#checks = 0;
    const patienceMs = this.#patienceMs();
    if (patienceMs > 0) this.#stopWatching();
    this.#checkIn(patienceMs);
  }

  /** How late the most impatient subscription may learn of a commit. */
  #patienceMs(): number {
    let leastMs = Number.POSITIVE_INFINITY;
    for (const { patienceMs } of this.#subscriptions) leastMs = Math.min(leastMs, patienceMs);
    return leastMs;
  }

  #check(): void {
    if (this.#subscriptions.size === 0) return;
    if (this.#watcher === undefined && !this.#isBlind) this.#watch();
    const version = this.#readVersion();
    const hasChanged = version !== this.#seen;
    this.#seen = version;
    // After one visible commit the next may be under way: its report can have come before this
    // check.
    this.#checks = hasChanged ? 0 : this.#checks + 1;
    this.#checkIn(Math.max(CHECKS_MS[this.#checks] ?? this.#idleMs(), this.#patienceMs()));
    if (hasChanged) for (const { wake } of [...this.#subscriptions]) wake();
  }

  /** Undefined if the file cannot be read now, for example while another process recovers it. */
  #readVersion(): unknown {
    try {
      return this.#version.get()?.data_version;
    } catch {
      return undefined;
    }
  }

  #checkIn(delayMs: number): void {
    this.#timer?.cancel();
    const keepAlive = [...this.#subscriptions].some(({ isBackground }) => !isBackground);
    this.#timer = this.#clock.setTimer(() => this.#check(), delayMs, { keepAlive });
  }

  #idleMs(): number {
    return this.#isBlind ? BLIND_CHECK_MS : IDLE_CHECK_MS;
  }
}

interface SubscriptionParts {
  leave(): void;
  /** The subscription may not learn of a commit as late as before. */
  becomeImpatient(): void;
}

/** One view of the commits. A commit between two calls of `next` is not lost. */
export class Subscription {
  readonly isBackground: boolean;
  readonly wake: () => void;
  readonly #wakeup: Wakeup;
  readonly #parts: SubscriptionParts;
  #patienceMs = 0;

  constructor(clock: Clock, isBackground: boolean, parts: SubscriptionParts) {
    this.isBackground = isBackground;
    this.#wakeup = new Wakeup(clock, { keepAlive: !isBackground });
    this.#parts = parts;
    this.wake = this.#wakeup.notify;
  }

  /** How late this subscription may learn of a commit. @default 0 */
  get patienceMs(): number {
    return this.#patienceMs;
  }

  set patienceMs(ms: number) {
    const isLess = ms < this.#patienceMs;
    this.#patienceMs = ms;
    if (isLess) this.#parts.becomeImpatient();
  }

  /** Resolves after the next commit or `delayMs`; rejects with the signal's reason. */
  next(delayMs: number, signal: AbortSignal): Promise<void> {
    return this.#wakeup.wait(delayMs, signal).finally(() => this.#wakeup.reset());
  }

  close(): void {
    this.#parts.leave();
  }
}
