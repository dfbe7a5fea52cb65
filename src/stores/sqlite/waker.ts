// Tells waiters that the file has changed, without a tight poll. The kernel reports writes to the WAL file (push);
// `data_version` then tells whether a commit is visible, for which the writer's flush may still take a moment. A slow
// poll covers what the kernel may miss. While nobody waits, nothing runs.

import type { Clock, Timer } from "../../core/clock.ts";
import { Bell } from "../shared/bell.ts";
import type { Disk, Watching } from "./disk.ts";
import type { Connection, Statement } from "./driver.ts";

/** After a report from the kernel: when to look, in milliseconds after the look before. */
const LOOKS_MS = [0, 2, 4, 10, 25, 80];
/** How often to look when the kernel reports nothing. */
const IDLE_LOOK_MS = 250;
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
  readonly #listeners = new Set<() => void>();
  #watcher: Watching | undefined;
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
    const subscription = new Subscription(this.#clock, () => {
      this.#listeners.delete(subscription.wake);
      if (this.#listeners.size === 0) this.close();
    });
    if (this.#listeners.size === 0) this.#start();
    this.#listeners.add(subscription.wake);
    return subscription;
  }

  /** For commits of our own connection, which `data_version` does not count. */
  wakeAll(): void {
    for (const wake of [...this.#listeners]) wake();
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#timer?.cancel();
    this.#listeners.clear();
  }

  #start(): void {
    this.#seen = this.#version.get()?.data_version;
    try {
      this.#watcher = this.#disk.watch(
        `${this.#file}-wal`,
        () => this.#reported(),
        () => this.#goBlind(),
      );
    } catch {
      this.#watcher = undefined;
    }
    // The pages of a commit may have been written just before the watch began, and be visible only in a moment.
    this.#looks = 0;
    this.#lookIn(0);
  }

  #goBlind(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#lookIn(this.#idleMs());
  }

  /** Every report starts the series of looks anew. They come in bursts, one per page; a series just begun will do. */
  #reported(): void {
    if (this.#looks === 0) return;
    this.#looks = 0;
    this.#lookIn(0);
  }

  #look(): void {
    if (this.#listeners.size === 0) return;
    const version = this.#version.get()?.data_version;
    const changed = version !== this.#seen;
    this.#seen = version;
    // Where one commit became visible the next may be under way: its report can have come before this look.
    this.#looks = changed ? 0 : this.#looks + 1;
    this.#lookIn(LOOKS_MS[this.#looks] ?? this.#idleMs());
    if (changed) this.wakeAll();
  }

  #lookIn(delayMs: number): void {
    this.#timer?.cancel();
    // Somebody is waiting, so the process has something to do.
    this.#timer = this.#clock.setTimer(() => this.#look(), delayMs, { keepAlive: true });
  }

  #idleMs(): number {
    return this.#watcher === undefined ? BLIND_LOOK_MS : IDLE_LOOK_MS;
  }
}

/** One waiter's view of the changes. A change between two calls of `next` is not lost. */
export class Subscription {
  readonly #bell: Bell;
  readonly #leave: () => void;
  readonly wake: () => void;

  constructor(clock: Clock, leave: () => void) {
    this.#bell = new Bell(clock);
    this.#leave = leave;
    this.wake = this.#bell.ring;
  }

  /** Resolves at the next change, or after `delayMs`; rejects with the signal's reason. Look behind it. */
  next(delayMs: number, signal: AbortSignal): Promise<void> {
    return this.#bell.next(delayMs, signal).finally(() => this.#bell.reset());
  }

  close(): void {
    this.#leave();
  }
}
