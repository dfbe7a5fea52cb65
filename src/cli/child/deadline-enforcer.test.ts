// Goal: SIGTERM and SIGKILL are sent in time, whatever the renewals do. Method: the enforcer on a
// manual clock, with a lease whose deadline the test changes.
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../testing/manual-clock.ts";
import { DeadlineEnforcer } from "./deadline-enforcer.ts";

class World {
  readonly clock = new ManualClock();
  readonly sent: [signal: string, at: number][] = [];
  readonly loss = new AbortController();
  readonly startedAt: number = this.clock.now();
  readonly lease = { signal: this.loss.signal, safeUntil: this.startedAt + 10_000 };
  readonly enforcer: DeadlineEnforcer;

  constructor(killAfterMs = 2_000) {
    const { clock, lease, sent, startedAt } = this;
    const group = { signal: (signal: string) => void sent.push([signal, clock.now() - startedAt]) };
    this.enforcer = new DeadlineEnforcer({ group, lease, clock, killAfterMs });
  }
}

describe("the deadline enforcer", () => {
  test("S3: without a renewal, SIGTERM is sent `killAfterMs` before the deadline and SIGKILL before the deadline", async () => {
    const world = new World();
    await world.clock.advance(7_999);
    expect(world.sent).toEqual([]);
    await world.clock.advance(10_000);
    expect(world.sent).toEqual([
      ["SIGTERM", 8_000],
      ["SIGKILL", 9_900],
    ]);
    expect(world.enforcer.lost).toBe("The store did not confirm the lease in time.");
  });

  test("timely renewals prevent any signal", async () => {
    const world = new World();
    for (let round = 0; round < 10; round += 1) {
      await world.clock.advance(3_000);
      world.lease.safeUntil = world.clock.now() + 10_000;
    }
    expect(world.sent).toEqual([]);
    expect(world.enforcer.lost).toBeUndefined();
  });

  test("a renewal after SIGTERM does not delay SIGKILL beyond `killAfterMs`", async () => {
    const world = new World();
    await world.clock.advance(8_500);
    world.lease.safeUntil = world.startedAt + 18_000;
    await world.clock.advance(20_000);
    expect(world.sent).toEqual([
      ["SIGTERM", 8_000],
      // The timer for the old deadline fires first and is then set to the end of `killAfterMs`.
      ["SIGKILL", 10_000],
    ]);
    expect(world.enforcer.lost).toBeDefined();
  });

  test("a lost lease sends SIGKILL synchronously and records the reason", () => {
    const world = new World();
    world.loss.abort(new Error("a third party revoked it"));
    expect(world.sent).toEqual([["SIGKILL", 0]]);
    expect(world.enforcer.lost).toBe("a third party revoked it");
  });

  test("end() sends SIGTERM now and SIGKILL after `killAfterMs`, and does not count as a loss", async () => {
    const world = new World(500);
    world.enforcer.end();
    await world.clock.advance(5_000);
    expect(world.sent).toEqual([
      ["SIGTERM", 0],
      ["SIGKILL", 500],
    ]);
    expect(world.enforcer.lost).toBeUndefined();
  });

  test("with a `killAfterMs` of 0 only SIGKILL is sent, still before the deadline", async () => {
    const world = new World(0);
    await world.clock.advance(20_000);
    expect(world.sent).toEqual([["SIGKILL", 9_990]]);
  });

  test("`gaveUp` resolves for a group that does not die; a stopped enforcer sends nothing", async () => {
    const world = new World();
    let gaveUp = false;
    void world.enforcer.gaveUp.then(() => {
      gaveUp = true;
    });
    world.loss.abort(new Error("gone"));
    await world.clock.advance(5_001);
    expect(gaveUp).toBe(true);
    const stopped = new World();
    stopped.enforcer.stop();
    stopped.loss.abort(new Error("gone"));
    await stopped.clock.advance(20_000);
    expect(stopped.sent).toEqual([]);
  });
});
