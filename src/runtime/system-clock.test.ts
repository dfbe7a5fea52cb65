// Goal: the clock reports time that the monotonic clock did not count as a certain jump, and a wall
// clock that moved forward alone as a possible jump; it reports nothing else. Method: a simulated
// machine whose three clocks (monotonic, wall, boot) can be suspended, set, slowed and interrupted
// between two readings. Real timers are used only to test their own precision.
import { performance } from "node:perf_hooks";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { Machine } from "../../test/support/holder/clock-machine.ts";
import { clockToken } from "../core/era.ts";
import { SystemClock } from "./system-clock.ts";

const HOUR_MS = 3_600_000;

describe("certain jumps", () => {
  test("S3: the next now() reports a suspend before it returns", () => {
    const machine = new Machine();
    machine.pass(1_000);
    expect(machine.clock.now()).toBe(6_000);
    expect(machine.jumps).toBe(0);
    machine.sleep(60_000);
    expect(machine.clock.now()).toBe(6_000);
    expect(machine.jumps).toBe(1);
  });

  test("a suspend is reported once, and the next one again", () => {
    const machine = new Machine();
    for (const expected of [1, 2, 3]) {
      machine.sleep(5_000);
      for (let reading = 0; reading < 5; reading += 1) machine.clock.now();
      machine.pass(10_000);
      machine.clock.now();
      expect(machine.jumps).toBe(expected);
    }
  });

  test("S3: the next now() reports every suspend above the tolerances", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 61, max: 10 * HOUR_MS }),
        fc.integer({ max: HOUR_MS, min: 0 }),
        (asleep, awake) => {
          const machine = new Machine();
          machine.pass(awake);
          machine.clock.now();
          machine.sleep(asleep);
          machine.clock.now();
          expect(machine.jumps).toBe(1);
        },
      ),
    );
  });

  test("short suspends add up and are reported together", () => {
    const machine = new Machine();
    for (let nap = 0; nap < 10; nap += 1) {
      machine.sleep(10);
      machine.pass(1_000);
      machine.clock.now();
    }
    expect(machine.jumps).toBeGreaterThanOrEqual(1);
  });

  test("a monotonic clock that goes back is a jump", () => {
    const machine = new Machine();
    machine.pass(1_000);
    machine.clock.now();
    machine.mono -= 1;
    machine.clock.now();
    expect(machine.jumps).toBe(1);
  });

  test("S3: the next timer detects a suspend that a wall clock set back by its length hides", async () => {
    const machine = new Machine();
    machine.sleep(30_000);
    machine.wall -= 30_000;
    machine.clock.now();
    expect(machine.jumps).toBe(0);
    await machine.timer();
    expect(machine.jumps).toBe(1);
  });

  test("a suspend is reported before the callback of a late timer runs", async () => {
    const machine = new Machine();
    const seen: number[] = [];
    const fired = new Promise<void>((resolve) => {
      machine.clock.setTimer(() => resolve(void seen.push(machine.jumps)), 0, { keepAlive: true });
    });
    machine.sleep(60_000);
    await fired;
    expect(seen).toEqual([1]);
  });
});

describe("possible jumps", () => {
  // QEMU stops the clocks of a paused virtual machine. Afterwards its agent sets the wall clock.
  test.each([60_000, HOUR_MS, 51])(
    "S3: the next now() reports a wall clock that moves forward alone by %i ms, once and before it returns",
    (step) => {
      const machine = new Machine();
      machine.pass(1_000);
      machine.clock.now();
      machine.wall += step;
      const seen: number[] = [];
      machine.clock.onJump(() => seen.push(machine.clock.now()));
      expect(machine.clock.now()).toBe(6_000);
      expect({ steps: machine.steps, jumps: machine.jumps }).toEqual({ steps: 1, jumps: 0 });
      expect(seen).toEqual([6_000]);
      for (let reading = 0; reading < 5; reading += 1) machine.clock.now();
      machine.pass(10_000);
      machine.clock.now();
      expect(machine.steps).toBe(1);
      machine.wall += step;
      machine.clock.now();
      expect(machine.steps).toBe(2);
    },
  );

  test("S3: a timer detects the step if now() was not called before", async () => {
    const machine = new Machine();
    machine.wall += 60_000;
    await machine.timer();
    expect({ steps: machine.steps, jumps: machine.jumps }).toEqual({ steps: 1, jumps: 0 });
  });

  test("a suspend is reported only as a certain jump", () => {
    const machine = new Machine();
    machine.sleep(60_000);
    machine.clock.now();
    expect({ steps: machine.steps, jumps: machine.jumps }).toEqual({ steps: 0, jumps: 1 });
  });

  test("S3: an interruption at any reading does not hide a step", () => {
    for (let reading = 1; reading <= 8; reading += 1) {
      const machine = new Machine();
      machine.wall += 60_000;
      machine.interrupt(reading, 120_000);
      machine.clock.now();
      machine.clock.now();
      expect(machine.steps).toBe(1);
    }
  });
});

describe("no jump", () => {
  test.each([HOUR_MS, -HOUR_MS, 51, -51])(
    "a wall clock set by %i ms alone is not a certain jump",
    async (step) => {
      const machine = new Machine();
      for (let times = 0; times < 3; times += 1) {
        machine.wall += step;
        machine.clock.now();
        machine.pass(500);
        machine.clock.now();
        await machine.timer();
      }
      expect(machine.jumps).toBe(0);
    },
  );

  test("a wall clock that is set back is not a possible jump either", async () => {
    const machine = new Machine();
    for (const step of [-HOUR_MS, -60_000, -51]) {
      machine.wall += step;
      machine.clock.now();
      await machine.timer();
    }
    expect(machine.steps).toBe(0);
  });

  test("a wall clock that is slewed for a day is not a jump", () => {
    const machine = new Machine();
    for (let minute = 0; minute < 24 * 60; minute += 1) {
      machine.pass(60_000);
      // 500 parts per million, the fastest rate at which NTP slews.
      machine.wall += 30 * (minute % 2 === 0 ? 1 : -3);
      machine.clock.now();
    }
    expect(machine.jumps + machine.steps).toBe(0);
  });

  test("a wall clock that is set does not hide a later suspend", () => {
    const machine = new Machine();
    machine.wall -= HOUR_MS;
    machine.clock.now();
    machine.sleep(60_000);
    machine.clock.now();
    expect(machine.jumps).toBe(1);
  });

  test("an interruption between any two readings is not reported as a jump", () => {
    const move = fc.record({
      passMs: fc.integer({ min: 0, max: 10_000 }),
      setWallMs: fc.constantFrom(0, 0, 200, -200, HOUR_MS, -HOUR_MS),
      interruptAt: fc.integer({ min: 1, max: 6 }),
      interruptMs: fc.constantFrom(0, 0, 40, 5_000, HOUR_MS),
    });
    fc.assert(
      fc.property(fc.array(move, { maxLength: 30 }), (moves) => {
        const machine = new Machine();
        let forward = 0;
        for (const { passMs, setWallMs, interruptAt, interruptMs } of moves) {
          if (setWallMs > 0) forward += 1;
          machine.pass(passMs);
          machine.wall += setWallMs;
          machine.interrupt(interruptAt, interruptMs);
          machine.clock.now();
        }
        expect(machine.jumps).toBe(0);
        expect(machine.steps).toBeLessThanOrEqual(forward);
      }),
      { numRuns: 500 },
    );
  });

  test("a stopped process is not a jump, because now() includes the time", () => {
    const machine = new Machine();
    const before = machine.clock.now();
    machine.pass(HOUR_MS);
    expect(machine.clock.now() - before).toBe(HOUR_MS);
    expect(machine.jumps).toBe(0);
  });
});

describe("the start of the clock", () => {
  test.each([1, 2, 3])(
    "S3: an interruption before reading %i at the start does not hide a later suspend",
    async (reading) => {
      const machine = new Machine((made) => made.interrupt(reading, 60_000));
      machine.clock.now();
      const jumpsAtStart = machine.jumps;
      machine.sleep(30_000);
      machine.clock.now();
      await machine.timer();
      expect(machine.jumps).toBeGreaterThan(jumpsAtStart);
    },
  );

  // An interruption between the readings makes the boot offset wrong. If the monotonic clock is
  // read last, the first timer would report a suspend; if it is read first, a suspend would be
  // hidden.
  test.each([1, 2, 3, 4])(
    "an interruption before reading %i at the start is not reported as a jump",
    async (reading) => {
      const machine = new Machine((made) => made.interrupt(reading, 60_000));
      machine.pass(1_000);
      machine.clock.now();
      await machine.timer();
      expect(machine.jumps).toBe(0);
    },
  );
});

describe("the wall clock", () => {
  test("readings within one millisecond differ by a microsecond and restart at the next millisecond", () => {
    const machine = new Machine();
    const first = machine.clock.wallNow();
    const tokens = [first, machine.clock.wallNow(), machine.clock.wallNow()].map(clockToken);
    expect(tokens.map((token) => token - clockToken(first))).toEqual([0n, 1n, 2n]);
    machine.pass(1);
    expect(clockToken(machine.clock.wallNow()) - clockToken(first)).toBe(1_000n);
    // However many there are, none reaches the next millisecond.
    let last = 0;
    for (let reading = 0; reading < 2_000; reading += 1) last = machine.clock.wallNow();
    expect(clockToken(last) - clockToken(first)).toBe(1_999n);
  });
});

describe("listeners", () => {
  test("a removed listener is not called, and the others are", () => {
    const machine = new Machine();
    let heard = 0;
    const remove = machine.clock.onJump(() => {
      heard += 1;
    });
    remove();
    machine.sleep(60_000);
    machine.clock.now();
    expect({ heard, jumps: machine.jumps }).toEqual({ heard: 0, jumps: 1 });
  });

  test("a listener may remove itself and others while it is called", () => {
    const machine = new Machine();
    const removals: (() => void)[] = [];
    let heard = 0;
    for (let count = 0; count < 3; count += 1) {
      removals.push(
        machine.clock.onJump(() => {
          heard += 1;
          for (const remove of removals) remove();
        }),
      );
    }
    machine.sleep(60_000);
    machine.clock.now();
    machine.sleep(60_000);
    machine.clock.now();
    expect({ heard, jumps: machine.jumps }).toEqual({ heard: 3, jumps: 2 });
  });
});

describe("real timers", () => {
  const hostClock = { stepMs: 10, bootId: "made-up", now: () => performance.now() };
  const clock = new SystemClock({
    monotonicMs: () => performance.now(),
    wallMs: () => Date.now(),
    hostClock,
  });

  test("a timer never fires early, not even by a fraction of a millisecond", async () => {
    const delays = [0, 0.1, 0.5, 0.9, 1, 1.5, 2, 2.999, 3, 4.2, 5];
    const early = await Promise.all(
      [...delays, ...delays, ...delays].map(async (delayMs) => {
        const setAt = clock.now();
        await new Promise<void>((resolve) => {
          clock.setTimer(resolve, delayMs, { keepAlive: true });
        });
        return Math.min(0, clock.now() - setAt - delayMs);
      }),
    );
    expect(early.filter((byMs) => byMs < 0)).toEqual([]);
  });

  // setTimeout supports at most 24.8 days.
  test("a timer longer than setTimeout supports does not fire early either", () => {
    const spy = vi.spyOn(globalThis, "setTimeout");
    const machine = new Machine();
    let fired = 0;
    const timer = machine.clock.setTimer(
      () => {
        fired += 1;
      },
      30 * 24 * HOUR_MS,
    );
    try {
      const [fire, delayMs] = spy.mock.calls[0] ?? [];
      machine.pass(delayMs ?? 0);
      fire?.();
      expect(fired).toBe(0);
    } finally {
      timer.cancel();
      spy.mockRestore();
    }
  });

  // Without the comparison, no timer would detect for an hour that the monotonic clock was set back
  // by an hour.
  test("S3: a timer that fires early because the monotonic clock went back reports the jump", () => {
    const spy = vi.spyOn(globalThis, "setTimeout");
    const machine = new Machine();
    const timer = machine.clock.setTimer(() => undefined, 1_000);
    try {
      const fire = spy.mock.calls[0]?.[0];
      machine.pass(1_000);
      machine.mono -= HOUR_MS;
      fire?.();
      expect(machine.jumps).toBe(1);
    } finally {
      timer.cancel();
      spy.mockRestore();
    }
  });

  test("a cancelled timer does not fire, and cancelling twice is harmless", async () => {
    let fired = 0;
    const timer = clock.setTimer(() => {
      fired += 1;
    }, 0);
    timer.cancel();
    timer.cancel();
    await new Promise<void>((resolve) => {
      clock.setTimer(resolve, 3, { keepAlive: true });
    });
    expect(fired).toBe(0);
  });

  test("soon() runs after settled promises, and wallNow() returns the wall clock", async () => {
    const order: string[] = [];
    const soon = new Promise<void>((resolve) => {
      clock.soon(() => resolve(void order.push("soon")));
    });
    await Promise.resolve().then(() => order.push("promise"));
    await soon;
    expect(order).toEqual(["promise", "soon"]);
    expect(Math.abs(clock.wallNow() - Date.now())).toBeLessThan(1_000);
  });
});
