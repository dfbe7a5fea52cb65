// Tells waiters that the file has changed, without a tight poll. The kernel reports writes to the WAL file (push);
// `data_version` then tells whether a commit is visible, for which the writer's flush may still take a moment. A slow
// poll covers what the kernel may miss. While nobody waits, nothing runs. The kernel reports every write to every
// process, so whoever is far from its turn lets some pass: with all awake at each, the next in line would wait for a core.

import type { Clock, Timer } from "../../async/clock.ts";
import type { Disk, Watching } from "../../clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../clients/sqlite/driver.ts";
import { Wakeup } from "../shared/wakeup.ts";

/** After a report from the kernel: when to look, in milliseconds after the look before. */
const LOOKS_MS = [0, 2, 4, 10, 25, 80];
/** How often to look when the kernel reports nothing. */
export const IDLE_LOOK_MS = 250;
/** The same where the kernel cannot report at all. */
const BLIND_LOOK_MS = 10;

export interface WakerParts {
  readonly connection: Connection;
  readonly file: string;
  readonly disk: Disk;
  readonly clock: Clock;
}

export class Waker {
  readonly #file: string;
  readonly #disk: Disk;
  readonly #clock: Clock;
  readonly #version: Statement;
  readonly #listeners = new Set<Subscription>();
  #watcher: Watching | undefined;
  #isBlind = false;
  #timer: Timer | undefined;
  #seen: unknown;
  #looks = LOOKS_MS.length;

  constructor({ connection, file, disk, clock }: WakerParts) {
    this.#file = file;
    this.#disk = disk;
    this.#clock = clock;
    this.#version = connection.prepare("PRAGMA data_version");
  }

  /** From this call on, no commit is missed. */
  subscribe(): Subscription {
    const subscription = new Subscription(this.#clock, {
      leave: () => {
        this.#listeners.delete(subscription);
        if (this.#listeners.size === 0) this.close();
      },
      grewImpatient: () => this.#lookIn(Math.max(LOOKS_MS[this.#looks] ?? 0, this.#patienceMs())),
    });
    if (this.#watcher === undefined) this.#start();
    this.#listeners.add(subscription);
    return subscription;
  }

  /** For commits of our own connection, which `data_version` does not count. */
  wakeAll(): void {
    for (const { wake } of [...this.#listeners]) wake();
  }

  close(): void {
    this.#stopWatching();
    this.#timer?.cancel();
    this.#listeners.clear();
  }

  #start(): void {
    if (this.#listeners.size === 0) this.#seen = this.#version.get()?.data_version;
    this.#isBlind = false;
    this.#watch();
    this.#looks = 0;
    this.#lookIn(0);
  }

  /** The pages of a commit may have been written just before, and be visible only in a moment: a series of looks follows. */
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
    this.#lookIn(this.#idleMs());
  }

  /** Every report starts the series of looks anew. They come in bursts, one per page; a series just begun will do. */
  #reported(): void {
    if (this.#looks === 0) return;
    this.#looks = 0;
    const patienceMs = this.#patienceMs();
    if (patienceMs > 0) this.#stopWatching();
    this.#lookIn(patienceMs);
  }

  /** How long the most impatient can do without a look. */
  #patienceMs(): number {
    let leastMs = Number.POSITIVE_INFINITY;
    for (const { patienceMs } of this.#listeners) leastMs = Math.min(leastMs, patienceMs);
    return leastMs;
  }

  #look(): void {
    if (this.#listeners.size === 0) return;
    if (this.#watcher === undefined && !this.#isBlind) this.#watch();
    const version = this.#version.get()?.data_version;
    const changed = version !== this.#seen;
    this.#seen = version;
    // Where one commit became visible the next may be under way: its report can have come before this look.
    this.#looks = changed ? 0 : this.#looks + 1;
    this.#lookIn(Math.max(LOOKS_MS[this.#looks] ?? this.#idleMs(), this.#patienceMs()));
    if (changed) this.wakeAll();
  }

  #lookIn(delayMs: number): void {
    this.#timer?.cancel();
    // Somebody is waiting, so the process has something to do.
    this.#timer = this.#clock.setTimer(() => this.#look(), delayMs, { keepAlive: true });
  }

  #idleMs(): number {
    return this.#isBlind ? BLIND_LOOK_MS : IDLE_LOOK_MS;
  }
}

interface SubscriptionParts {
  leave(): void;
  /** Somebody who could wait for the next look cannot any more. */
  grewImpatient(): void;
}

/** One waiter's view of the changes. A change between two calls of `next` is not lost. */
export class Subscription {
  readonly #wakeup: Wakeup;
  readonly #parts: SubscriptionParts;
  readonly wake: () => void;
  #patienceMs = 0;

  constructor(clock: Clock, parts: SubscriptionParts) {
    this.#wakeup = new Wakeup(clock);
    this.#parts = parts;
    this.wake = this.#wakeup.notify;
  }

  /** A change may be noticed this late. @default 0 */
  get patienceMs(): number {
    return this.#patienceMs;
  }

  set patienceMs(ms: number) {
    const less = ms < this.#patienceMs;
    this.#patienceMs = ms;
    if (less) this.#parts.grewImpatient();
  }

  /** Resolves at the next change, or after `delayMs`; rejects with the signal's reason. Look behind it. */
  next(delayMs: number, signal: AbortSignal): Promise<void> {
    return this.#wakeup.wait(delayMs, signal).finally(() => this.#wakeup.reset());
  }

  close(): void {
    this.#parts.leave();
  }
}
