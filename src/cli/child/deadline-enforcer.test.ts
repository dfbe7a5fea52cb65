// Goal: SIGTERM and SIGKILL come when they must, whatever the renewals do. Method: the enforcer on a manual clock, with a lease
// whose deadline the test moves.
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

describe("the enforcer", () => {
  test("S3: without a renewal SIGTERM comes `killAfterMs` before the deadline and SIGKILL before it", async () => {
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

  test("renewals in time keep it quiet", async () => {
    const world = new World();
    for (let round = 0; round < 10; round += 1) {
      await world.clock.advance(3_000);
      world.lease.safeUntil = world.clock.now() + 10_000;
    }
    expect(world.sent).toEqual([]);
    expect(world.enforcer.lost).toBeUndefined();
  });

  test("a renewal that comes after SIGTERM does not take it back, and does not delay SIGKILL beyond the grace", async () => {
    const world = new World();
    await world.clock.advance(8_500);
    world.lease.safeUntil = world.startedAt + 18_000;
    await world.clock.advance(20_000);
    expect(world.sent).toEqual([
      ["SIGTERM", 8_000],
      // Looked at when the old deadline would have come, and then at the end of the grace.
      ["SIGKILL", 10_000],
    ]);
    expect(world.enforcer.lost).toBeDefined();
  });

  test("a lost lease: SIGKILL in the same turn, with the reason", () => {
    const world = new World();
    world.loss.abort(new Error("a third party revoked it"));
    expect(world.sent).toEqual([["SIGKILL", 0]]);
    expect(world.enforcer.lost).toBe("a third party revoked it");
  });

  test("asked to end: SIGTERM now, SIGKILL after the grace, and that is no loss", async () => {
    const world = new World(500);
    world.enforcer.end();
    await world.clock.advance(5_000);
    expect(world.sent).toEqual([
      ["SIGTERM", 0],
      ["SIGKILL", 500],
    ]);
    expect(world.enforcer.lost).toBeUndefined();
  });

  test("no grace: SIGKILL alone, and still before the deadline", async () => {
    const world = new World(0);
    await world.clock.advance(20_000);
    expect(world.sent).toEqual([["SIGKILL", 9_990]]);
  });

  test("a group that does not die is given up; a enforcer that was stopped does nothing more", async () => {
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
