// The three clocks of one simulated machine. The monotonic one runs at the host's own rate and stands still in suspend; the
// boot clock runs on in suspend; the wall clock can be set. When the whole machine is paused from outside (a frozen
// virtual machine), all three stand still and nobody inside can know.

import type { HostClock } from "../../src/async/clock.ts";
import type { Schedule } from "./schedule.ts";

const BOOT_STEP_MS = 10;
/** What the clocks show when the first program of a boot begins. */
const FIRST_MS = 20;

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
  #wallSteppedAt = Number.NEGATIVE_INFINITY;
  #boots = 1;
  #steadySince = Number.NEGATIVE_INFINITY;
  #jumpedAt = Number.NEGATIVE_INFINITY;
  #running: "yes" | "suspended" | "frozen" = "yes";
  readonly #onRate = new Set<() => void>();

  constructor(
    schedule: Schedule,
    start: { readonly rate: number; readonly offsetMs: number; readonly name: string },
  ) {
    this.#schedule = schedule;
    this.#rate = start.rate;
    this.#base = start.offsetMs;
    this.#since = schedule.now;
    // Off by up to half a second at first, also on a machine that starts later than others.
    const wallMs = 1_700_000_000_000 + schedule.now + (start.offsetMs % 1_000) - 500;
    this.#wallOffset = wallMs - start.offsetMs;
    const now = (): number => this.bootNow();
    const bootId = (): string => `boot ${this.#boots} of ${start.name}`;
    this.hostClock = {
      ...{ now, stepMs: BOOT_STEP_MS },
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

  /** When the wall clock was last set forward, as a true instant. A program notices it with its next reading of the clock. */
  get wallSteppedAt(): number {
    return this.#wallSteppedAt;
  }

  stepWall(byMs: number): void {
    this.#wallOffset += byMs;
    if (byMs > 0) this.#wallSteppedAt = this.#schedule.now;
  }

  /** Continuous: what it shows does not jump. */
  setRate(rate: number): void {
    this.#settle();
    if (rate === this.#rate) return;
    this.#rate = rate;
    for (const listener of [...this.#onRate]) listener();
  }

  /** Tells when what is due by this clock is due at another true instant. */
  onRate(listener: () => void): () => void {
    this.#onRate.add(listener);
    return () => this.#onRate.delete(listener);
  }

  /** The true instant since which the monotonic clock has run. */
  get steadySince(): number {
    return this.#steadySince;
  }

  /** When the machine last woke up from a suspend, as a true instant. */
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

  /** When the monotonic clock will show this, if it runs on as it does now. */
  trueInstant(monotonic: number): number {
    return this.#schedule.now + (monotonic - this.now()) / this.#rate;
  }

  /** The same for the boot clock, without its steps. */
  trueInstantOfBoot(boot: number): number {
    return this.#schedule.now + (boot - this.#boot()) / this.#rate;
  }

  /** The machine starts again: all clocks but the wall clock begin anew. */
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
