// The three clocks of one simulated machine. The monotonic clock runs at the machine's own rate and
// stops during suspend. The boot clock continues during suspend. The wall clock can be set. When
// the whole machine is frozen from outside (a paused virtual machine), all three stop, and no
// program on it can detect this.

import type { HostClock } from "../../src/async/clock.ts";
import type { Schedule } from "./schedule.ts";

const BOOT_STEP_MS = 10;
/** The reading of the clocks when the first program after a boot starts. */
const FIRST_MS = 20;

export class HostClocks {
  readonly hostClock: HostClock;
  readonly #schedule: Schedule;
  #rate: number;
  /** At `#since` true time, the monotonic clock showed `#base`. */
  #since = 0;
  #base: number;
  /** Time in suspend: counted by the boot clock, not by the monotonic one. */
  #slept = 0;
  #wallOffset: number;
  #wallSteppedAt = Number.NEGATIVE_INFINITY;
  #boots = 1;
  #steadySince = Number.NEGATIVE_INFINITY;
  #jumpedAt = Number.NEGATIVE_INFINITY;
  #running: "yes" | "suspended" | "frozen" = "yes";
  readonly #rateListeners = new Set<() => void>();

  constructor(
    schedule: Schedule,
    start: { readonly rate: number; readonly offsetMs: number; readonly name: string },
  ) {
    this.#schedule = schedule;
    this.#rate = start.rate;
    this.#base = start.offsetMs;
    this.#since = schedule.now;
    // Wall clocks start up to half a second off, also on a machine that starts later than others.
    const wallMs = 1_700_000_000_000 + schedule.now + (start.offsetMs % 1_000) - 500;
    this.#wallOffset = wallMs - start.offsetMs;
    const now = (): number => this.bootNow();
    const bootId = (): string => `boot ${this.#boots} of ${start.name}`;
    this.hostClock = {
      now,
      stepMs: BOOT_STEP_MS,
      get bootId() {
        return bootId();
      },
    };
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
    return Math.floor(this.#boot() / BOOT_STEP_MS) * BOOT_STEP_MS;
  }

  wallNow(): number {
    return this.#wallOffset + this.#boot();
  }

  /**
   * The true instant at which the wall clock was last set forward. A program notices it with its
   * next reading of the clock.
   */
  get wallSteppedAt(): number {
    return this.#wallSteppedAt;
  }

  stepWall(byMs: number): void {
    this.#wallOffset += byMs;
    if (byMs > 0) this.#wallSteppedAt = this.#schedule.now;
  }

  /** Changes the rate without a jump in the reading. */
  setRate(rate: number): void {
    this.#settle();
    if (rate === this.#rate) return;
    this.#rate = rate;
    for (const listener of [...this.#rateListeners]) listener();
  }

  /**
   * Calls the listener when the rate changes, because timers are then due at other true instants.
   */
  onRateChange(listener: () => void): () => void {
    this.#rateListeners.add(listener);
    return () => this.#rateListeners.delete(listener);
  }

  /** The true instant since which the monotonic clock has run without a stop. */
  get steadySince(): number {
    return this.#steadySince;
  }

  /** The true instant at which the machine last woke up from suspend. */
  get jumpedAt(): number {
    return this.#jumpedAt;
  }

  stop(how: "suspended" | "frozen"): void {
    this.#settle();
    this.#running = how;
  }

  run(): void {
    if (this.#running === "suspended") {
      this.#slept += this.#schedule.now - this.#since;
      this.#jumpedAt = this.#schedule.now;
    }
    this.#steadySince = this.#schedule.now;
    this.#since = this.#schedule.now;
    this.#running = "yes";
  }

  /** The true instant at which the monotonic clock shows this value, at its current rate. */
  trueInstant(monotonic: number): number {
    return this.#schedule.now + (monotonic - this.now()) / this.#rate;
  }

  /** The same for the boot clock, without rounding to its steps. */
  trueInstantOfBoot(boot: number): number {
    return this.#schedule.now + (boot - this.#boot()) / this.#rate;
  }

  /** Restarts the machine. All clocks except the wall clock start from the beginning. */
  reboot(): void {
    this.#wallOffset += this.#boot() - FIRST_MS;
    [this.#base, this.#since, this.#slept] = [FIRST_MS, this.#schedule.now, 0];
    this.#boots += 1;
  }

  #boot(): number {
    const asleep = this.#running === "suspended" ? this.#schedule.now - this.#since : 0;
    return this.now() + this.#slept + asleep;
  }

  #settle(): void {
    this.#base = this.now();
    this.#since = this.#schedule.now;
  }
}
