// The three clocks of one simulated machine. The monotonic one runs at the host's own rate and stands still in suspend; the
// boot clock runs on in suspend; the wall clock can be set. When the whole machine is paused from outside (a frozen
// virtual machine), all three stand still and nobody inside can know.

import type { HostClock } from "../../core/clock.ts";
import type { Schedule } from "./schedule.ts";

export class HostClocks {
  readonly hostClock: HostClock;
  readonly #schedule: Schedule;
  #rate: number;
  /** At `#since` true time, the monotonic clock showed `#base`. */
  #since = 0;
  #base: number;
  /** What the boot clock counted and the monotonic one did not. */
  #slept = 0;
  #wallOffset: number;
  #running: "yes" | "suspended" | "frozen" = "yes";

  constructor(
    schedule: Schedule,
    start: { readonly rate: number; readonly offsetMs: number; readonly name: string },
  ) {
    this.#schedule = schedule;
    this.#rate = start.rate;
    this.#base = start.offsetMs;
    this.#since = schedule.now;
    this.#wallOffset = 1_700_000_000_000 + start.offsetMs * 7;
    const now = (): number => this.bootNow();
    this.hostClock = { now, stepMs: 10, bootId: `boot of ${start.name}` };
  }

  get isStopped(): boolean {
    return this.#running !== "yes";
  }

  /** The monotonic clock. */
  now(): number {
    if (this.#running !== "yes") return this.#base;
    return this.#base + (this.#schedule.now - this.#since) * this.#rate;
  }

  bootNow(): number {
    const asleep = this.#running === "suspended" ? this.#schedule.now - this.#since : 0;
    return Math.floor((this.now() + this.#slept + asleep) / 10) * 10;
  }

  wallNow(): number {
    const asleep = this.#running === "suspended" ? this.#schedule.now - this.#since : 0;
    return this.#wallOffset + this.now() + this.#slept + asleep;
  }

  stepWall(byMs: number): void {
    this.#wallOffset += byMs;
  }

  /** Continuous: what it shows does not jump. */
  setRate(rate: number): void {
    this.#settle();
    this.#rate = rate;
  }

  stop(how: "suspended" | "frozen"): void {
    this.#settle();
    this.#running = how;
  }

  run(): void {
    if (this.#running === "suspended") this.#slept += this.#schedule.now - this.#since;
    this.#since = this.#schedule.now;
    this.#running = "yes";
  }

  /** When the monotonic clock will show this, if it runs on as it does now. */
  trueInstant(monotonic: number): number {
    return this.#schedule.now + (monotonic - this.now()) / this.#rate;
  }

  #settle(): void {
    this.#base = this.now();
    this.#since = this.#schedule.now;
  }
}
