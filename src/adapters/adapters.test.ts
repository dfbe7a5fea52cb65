// Goal: the adapters name fires as the schedule does, tell what was skipped, and say what to change. Method: what a scheduler
// would call, called by hand, on a memory backend and a manual clock. The real libraries are in test/process/adapters.test.ts.
import { SchedulerRegistry } from "@nestjs/schedule";
import { describe, expect, test } from "vitest";
import { flush, makeWorld } from "../../test/support/holder-world.ts";
import { lastFire as lastCronerFire } from "./croner/last-fire.ts";
import { type CronerJob, oncePerFire } from "./croner.ts";
import { lastFire } from "./nestjs/last-fire.ts";
import { OncePerFire } from "./nestjs.ts";
import { nodeCronCoordinator } from "./node-cron.ts";

describe("node-cron", () => {
  test("holds the lease from shouldRun to onComplete, and not longer; the fire stays taken", async () => {
    const world = makeWorld();
    const [one, two] = [await world.join("one"), await world.join("two")];
    const skipped: unknown[] = [];
    const [here, there] = [one, two].map(({ tenure }) =>
      nodeCronCoordinator(tenure, { prefix: "cron/", onSkip: (skip) => skipped.push(skip) }),
    ) as [ReturnType<typeof nodeCronCoordinator>, ReturnType<typeof nodeCronCoordinator>];
    const key = `a:b:${new Date(world.clock.wallNow()).toISOString()}`;
    expect(await here.shouldRun(key, 30_000)).toBe(true);
    expect(here.lease("a:b")?.check()).toBe(1n);
    expect((await two.tenure.read("cron/a:b")).holder?.holderId).toBe("one");
    expect(await there.shouldRun(key, 30_000)).toBe(false);
    expect(there.lease("a:b")).toBeUndefined();
    await here.onComplete(key);
    expect(here.lease("a:b")).toBeUndefined();
    expect((await two.tenure.read("cron/a:b")).holder).toBeUndefined();
    expect(await there.shouldRun(key, 30_000)).toBe(false);
    const skip = { ran: false, reason: "taken", by: "one", key: "a:b" };
    expect(skipped).toEqual([skip, skip]);
  });

  test("rejects, so that node-cron does not run it, when the store cannot be used or the task has no name", async () => {
    const world = makeWorld();
    const { tenure, store } = await world.join("one");
    const coordinator = nodeCronCoordinator(tenure);
    store.hooks.grant = () => Promise.reject(new Error("odd"));
    const key = `tick:${new Date(world.clock.wallNow()).toISOString()}`;
    await expect(coordinator.shouldRun(key, 30_000)).rejects.toThrow("odd");
    await expect(coordinator.shouldRun(":2026-01-01T00:00:00.000Z", 1_000)).rejects.toThrow(
      /`name`/,
    );
    expect(() => nodeCronCoordinator(tenure, { onSkip: 1 as never })).toThrow(/`onSkip`/);
  });
});

describe("croner", () => {
  test("names the fire by the pattern and not by when the run began; a run without a fire is refused", async () => {
    const world = makeWorld();
    const { tenure } = await world.join("one");
    const atMs = Math.floor(world.clock.wallNow() / 1_000) * 1_000;
    const job = (began: number | null): CronerJob => ({
      currentRun: () => (began === null ? null : new Date(began)),
      nextRun: () => null,
      previousRuns: (_, reference = new Date(0)) =>
        reference.getTime() > atMs ? [new Date(atMs)] : [],
    });
    const skipped: unknown[] = [];
    const run = oncePerFire(tenure, "job", () => 1, { onSkip: (skip) => skipped.push(skip) });
    await run(job(atMs + 3));
    expect((await tenure.read("job@once")).holder?.value).toEqual({ atMs });
    await run(job(atMs + 400));
    expect(skipped).toEqual([{ ran: false, reason: "taken", by: "one", key: "job" }]);
    await expect(run(job(null))).rejects.toThrow(/no fire/);
    await expect(run(job(atMs - 5_000))).rejects.toThrow(/no fire/);
    expect(() => oncePerFire(tenure, "job", 1 as never)).toThrow(/needs a function/);
  });

  test("finds the fire of croner 9, which only computes the next one, however long ago it was", () => {
    const dayMs = 86_400_000;
    const daily = (after: Date): Date => new Date((Math.floor(+after / dayMs) + 1) * dayMs);
    const job = {
      currentRun: () => null,
      nextRun: (after?: Date | null) => daily(after ?? new Date(0)),
      options: { interval: 0 },
      runsLeft: () => undefined,
    };
    expect(lastCronerFire(job, new Date(3 * dayMs))).toEqual(new Date(3 * dayMs));
    expect(lastCronerFire(job, new Date(3 * dayMs + 7))).toEqual(new Date(3 * dayMs));
    expect(lastCronerFire(job, new Date(4 * dayMs - 1))).toEqual(new Date(3 * dayMs));
    expect(lastCronerFire({ ...job, nextRun: () => null }, new Date(dayMs))).toBeUndefined();
  });

  test("what the work throws goes to the scheduler", async () => {
    const world = makeWorld();
    const { tenure } = await world.join("one");
    const now = new Date(world.clock.wallNow());
    const job = { currentRun: () => now, nextRun: () => null, previousRuns: () => [now] };
    const run = oncePerFire(tenure, "job", () => Promise.reject(new Error("no disk")));
    await expect(run(job)).rejects.toThrow("no disk");
  });
});

describe("nestjs", () => {
  const everyTen = { getNextDateFrom: (start: Date) => ({ toMillis: () => nextTen(+start) }) };
  const nextTen = (ms: number): number => (Math.floor(ms / 10_000) + 1) * 10_000;

  test("the last fire is the newest up to now, or a moment later; none when it is too long ago", () => {
    expect(lastFire(everyTen, 20_000, 15_000)).toBe(20_000);
    expect(lastFire(everyTen, 19_960, 15_000)).toBe(20_000);
    expect(lastFire(everyTen, 19_900, 15_000)).toBe(10_000);
    expect(lastFire(everyTen, 29_900, 15_000)).toBe(20_000);
    expect(lastFire(everyTen, 29_900, 5_000)).toBeUndefined();
  });

  test("a method without a cron job of its name needs a window, and then runs once in it", async () => {
    const world = makeWorld();
    const { tenure } = await world.join("one");
    const skipped: string[] = [];
    const onSkip = ({ reason }: { reason: string }): void => void skipped.push(reason);
    const host = (options: Parameters<typeof OncePerFire>[1]): { sweep(): Promise<unknown> } => {
      class Jobs {
        async sweep(): Promise<string> {
          return "swept";
        }
      }
      const method = Object.getOwnPropertyDescriptor(Jobs.prototype, "sweep");
      Reflect.decorate([OncePerFire("sweep", options)] as never, Jobs.prototype, "sweep", method);
      const jobs = new Jobs();
      // What Nest would inject.
      const injected = Reflect.getMetadata("self:properties_metadata", Jobs) as { key: symbol }[];
      const values: unknown[] = [tenure, new SchedulerRegistry()];
      injected.forEach(({ key }, index) => {
        Object.assign(jobs, { [key]: values[index] });
      });
      return Object.create(jobs, { sweep: { value: method?.value } }) as Jobs;
    };
    await expect(host({}).sweep()).rejects.toThrow(/no cron job of that name/);
    const jobs = host({ windowMs: 10_000, onSkip });
    expect(await jobs.sweep()).toBe("swept");
    expect(await jobs.sweep()).toBeUndefined();
    expect(skipped).toEqual(["taken"]);
    await flush();
    expect(() => OncePerFire("x")({}, "y", {} as never)).toThrow(/on a method/);
  });
});
