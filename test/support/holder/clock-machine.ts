// A simulated machine for tests of the system clock. Its monotonic, wall and boot clocks are
// numbers that the test moves, and the process can be interrupted between two readings.
import { SystemClock } from "../../../src/runtime/system-clock.ts";

/** `interrupt` stops the process before a later reading of any of the clocks. */
export class Machine {
  mono = 5_000;
  wall = 1_700_000_000_000;
  boot = 86_400_000;
  readings = 0;
  readonly #interruptions = new Map<number, number>();

  readonly clock: SystemClock;
  /** Reported certain jumps. */
  jumps = 0;
  /** Reported possible jumps. */
  steps = 0;

  constructor(prepare: (machine: Machine) => void = () => undefined) {
    prepare(this);
    this.clock = new SystemClock({
      monotonicMs: () => this.#read(() => this.mono),
      // Date.now() has whole milliseconds, /proc/uptime hundredths of a second.
      wallMs: () => this.#read(() => Math.floor(this.wall)),
      hostClock: {
        stepMs: 10,
        bootId: "made-up",
        now: () => this.#read(() => Math.floor(this.boot / 10) * 10),
      },
    });
    this.clock.onJump((jump) => {
      if (jump === "certain") this.jumps += 1;
      else this.steps += 1;
    });
  }

  /** Time passes on all three clocks. */
  pass(ms: number): void {
    this.mono += ms;
    this.wall += ms;
    this.boot += ms;
  }

  /** The machine is suspended: the monotonic clock stops. */
  sleep(ms: number): void {
    this.wall += ms;
    this.boot += ms;
  }

  interrupt(readingsFromNow: number, ms: number): void {
    this.#interruptions.set(this.readings + readingsFromNow, ms);
  }

  /** Lets a timer of the clock fire, which compares all clocks. */
  timer(): Promise<void> {
    return new Promise((resolve) => {
      this.clock.setTimer(resolve, 0, { keepAlive: true });
    });
  }

  #read(value: () => number): number {
    this.readings += 1;
    this.pass(this.#interruptions.get(this.readings) ?? 0);
    return value();
  }
}
