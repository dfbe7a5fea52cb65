// One simulated process: its clock, its timers and its input and output. It can be stopped
// (everything waits), suspended with its machine, and killed. After a stop, callbacks run in the
// order that we measured in Node: an event loop that was busy handles pending I/O before timers, an
// idle one runs the timers first.

import type { Clock, ClockJump, Timer } from "../../src/async/clock.ts";
import type { Chance } from "./chance.ts";
import type { HostClocks } from "./host-clocks.ts";
import type { Schedule, Scheduled } from "./schedule.ts";

export interface ProgramParts {
  readonly name: string;
  readonly schedule: Schedule;
  readonly clocks: HostClocks;
  readonly chance: Chance;
}

interface Pending {
  readonly due: number;
  callback: (() => void) | undefined;
  armed: Scheduled | undefined;
}

/** Added to every timer, so that rounding in the clock rate never makes one fire early. */
const NEVER_EARLY_MS = 0.001;

export class Program {
  readonly name: string;
  readonly clocks: HostClocks;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly #schedule: Schedule;
  readonly #listeners = new Set<(jump: ClockJump) => void>();
  #stops = 0;
  #isDead = false;
  #runsSince = Number.NEGATIVE_INFINITY;
  #hasJumped = false;
  #wallSteppedAt: number;
  #heldIo: (() => void)[] = [];
  #heldTimers: Pending[] = [];
  readonly #timers = new Set<Pending>();
  readonly #unsubscribeRate: () => void;
  #outbox: (() => void)[] = [];

  constructor(parts: ProgramParts) {
    this.name = parts.name;
    this.#schedule = parts.schedule;
    this.clocks = parts.clocks;
    this.chance = parts.chance;
    this.#wallSteppedAt = parts.clocks.wallSteppedAt;
    this.#unsubscribeRate = parts.clocks.onRateChange(() => this.#rearm());
    this.clock = {
      now: () => this.#now(),
      wallNow: () => this.clocks.wallNow(),
      setTimer: (callback, delayMs) => this.#setTimer(callback, delayMs),
      soon: (callback) => void this.#schedule.after(0, () => this.#turn(callback)),
      onJump: (listener) => {
        this.#listeners.add(listener);
        return () => this.#listeners.delete(listener);
      },
    };
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get isStopped(): boolean {
    return this.#stops > 0;
  }

  /** The true instant since which the program and its clock have run without a stop. */
  get steadySince(): number {
    const runsSince = this.isStopped ? this.#schedule.now : this.#runsSince;
    return Math.max(runsSince, this.clocks.steadySince);
  }

  /**
   * SIGSTOP, a freeze, a full garbage collection. Nothing runs, and messages sent in the current
   * turn leave only after resume().
   */
  stop(): void {
    this.#stops += 1;
  }

  resume(): void {
    this.#stops -= 1;
    if (this.#stops > 0 || this.#isDead) return;
    this.#runsSince = this.#schedule.now;
    const [io, timers, outbox] = [this.#heldIo, this.#heldTimers, this.#outbox];
    [this.#heldIo, this.#heldTimers, this.#outbox] = [[], [], []];
    for (const depart of outbox) depart();
    timers.sort((one, other) => one.due - other.due);
    const ioTurns = io.map((run) => () => this.#turn(run));
    const timerTurns = timers.map((timer) => () => this.#fire(timer));
    const wasBusy = this.chance.isTrue(0.5);
    const turns = wasBusy ? [...ioTurns, ...timerTurns] : [...timerTurns, ...ioTurns];
    for (const turn of turns) this.#schedule.after(0, turn);
  }

  /** SIGKILL: none of its code runs again. */
  kill(): void {
    this.#isDead = true;
    this.#unsubscribeRate();
    this.#listeners.clear();
    [this.#heldIo, this.#heldTimers, this.#outbox] = [[], [], []];
  }

  /** The machine woke up from suspend. The next reading of the clock reports the jump. */
  jump(): void {
    this.#hasJumped = true;
  }

  /** Handles an incoming message: now, or when the program runs again. */
  receive(run: () => void): void {
    this.#turn(run);
  }

  /** Sends a message: now, or when the program runs again. */
  send(depart: () => void): void {
    if (this.#isDead) return;
    if (this.isStopped) this.#outbox.push(depart);
    else depart();
  }

  /** Waits by the program's own clock. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.clock.setTimer(resolve, ms);
    });
  }

  #now(): number {
    const { wallSteppedAt } = this.clocks;
    if (this.#hasJumped || this.#wallSteppedAt !== wallSteppedAt) {
      const jump = this.#hasJumped ? "certain" : "possible";
      [this.#hasJumped, this.#wallSteppedAt] = [false, wallSteppedAt];
      for (const listener of [...this.#listeners]) listener(jump);
    }
    return this.clocks.now();
  }

  #turn(run: () => void): void {
    if (this.#isDead) return;
    if (this.isStopped) this.#heldIo.push(run);
    else run();
  }

  #setTimer(callback: () => void, delayMs: number): Timer {
    const due = this.clocks.now() + Math.max(0, delayMs);
    const timer: Pending = { due, callback, armed: undefined };
    this.#arm(timer);
    return {
      cancel: () => {
        timer.callback = undefined;
        timer.armed?.cancel();
        this.#timers.delete(timer);
      },
      keepAlive: () => undefined,
    };
  }

  #arm(timer: Pending): void {
    const at = this.clocks.trueInstant(timer.due) + NEVER_EARLY_MS;
    timer.armed = this.#schedule.at(at, () => this.#fire(timer));
    this.#timers.add(timer);
  }

  /** The clock rate changed, so pending timers are due at other true instants. */
  #rearm(): void {
    for (const timer of [...this.#timers]) {
      timer.armed?.cancel();
      this.#arm(timer);
    }
  }

  #fire(timer: Pending): void {
    const { callback } = timer;
    this.#timers.delete(timer);
    if (callback === undefined || this.#isDead) return;
    if (this.isStopped) {
      this.#heldTimers.push(timer);
      return;
    }
    // Like the real clock, we check for a suspend whenever a timer fires.
    if (this.#now() < timer.due) {
      this.#arm(timer);
      return;
    }
    timer.callback = undefined;
    callback();
  }
}
