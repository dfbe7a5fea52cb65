// Goal: the adapters use the scheduled time, report skipped runs, and reject invalid input with
// what to change. Method: the calls of a scheduler, made by hand, on a memory backend and a manual
// clock. test/process/adapters.test.ts uses the real libraries.
import { createRequire } from "node:module";
import { SchedulerRegistry } from "@nestjs/schedule";
import { describe, expect, test, vi } from "vitest";
import { flush, makeWorld, outcome } from "../../test/support/holder/holder-world.ts";
import type { Tenure } from "../tenure.ts";
import { type CronerJob, oncePerFire } from "./croner/index.ts";
import { findLastFire as findLastCronerFire } from "./croner/last-fire.ts";
import { OncePerFire } from "./nestjs/index.ts";
import { type CronTimes, findLastFire } from "./nestjs/last-fire.ts";
import { nodeCronCoordinator } from "./node-cron/index.ts";

/** The cron library that @nestjs/schedule depends on. */
const { CronTime } = createRequire(createRequire(import.meta.url).resolve("@nestjs/schedule"))(
  "cron",
) as { CronTime: new (pattern: string, zone: string) => CronTimes };

describe("node-cron", () => {
  test("holds the lease from shouldRun to onComplete; the time stays taken", async () => {
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

  test("rejects, so that node-cron skips the run, if the store fails or the task has no name", async () => {
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
  test("uses the time of the pattern, not the start of the run; a run without such a time is rejected", async () => {
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
    const run = oncePerFire(tenure, "job", { onSkip: (skip) => skipped.push(skip) }, () => 1);
    await run(job(atMs + 3));
    expect((await tenure.read("job@once")).holder?.value).toEqual({ atMs });
    await run(job(atMs + 400));
    expect(skipped).toEqual([{ ran: false, reason: "taken", by: "one", key: "job" }]);
    await expect(run(job(null))).rejects.toThrow(/no scheduled time/);
    await expect(run(job(atMs - 5_000))).rejects.toThrow(/no scheduled time/);
    expect(() => oncePerFire(tenure, "job", {}, 1 as never)).toThrow(/needs a function/);
  });

  test("finds the last time of croner 9, which only computes the next one, however long ago it was", () => {
    const dayMs = 86_400_000;
    const daily = (after: Date): Date => new Date((Math.floor(+after / dayMs) + 1) * dayMs);
    const job = {
      currentRun: () => null,
      nextRun: (after?: Date | null) => daily(after ?? new Date(0)),
      options: { interval: 0 },
      runsLeft: () => undefined,
    };
    expect(findLastCronerFire(job, new Date(3 * dayMs))).toEqual(new Date(3 * dayMs));
    expect(findLastCronerFire(job, new Date(3 * dayMs + 7))).toEqual(new Date(3 * dayMs));
    expect(findLastCronerFire(job, new Date(4 * dayMs - 1))).toEqual(new Date(3 * dayMs));
    expect(findLastCronerFire({ ...job, nextRun: () => null }, new Date(dayMs))).toBeUndefined();
  });

  test("an error of the work goes to the scheduler", async () => {
    const world = makeWorld();
    const { tenure } = await world.join("one");
    const now = new Date(world.clock.wallNow());
    const job = { currentRun: () => now, nextRun: () => null, previousRuns: () => [now] };
    const run = oncePerFire(tenure, "job", () => Promise.reject(new Error("no disk")));
    await expect(run(job)).rejects.toThrow("no disk");
  });
});

describe("an onSkip that fails", () => {
  const boom = (): never => {
    throw new Error("boom");
  };
  const rejects = (): Promise<void> => Promise.reject(new Error("boom"));

  /** The process warnings during `work`. Fails if there was an unhandled rejection. */
  async function warningsOf(work: () => Promise<unknown>): Promise<string[]> {
    const emitWarning = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
    const unhandled: unknown[] = [];
    const onUnhandled = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", onUnhandled);
    try {
      await work();
      // Node reports unhandled rejections after all microtasks.
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).toEqual([]);
      return emitWarning.mock.calls.map(([message]) => String(message));
    } finally {
      process.off("unhandledRejection", onUnhandled);
      emitWarning.mockRestore();
    }
  }

  describe.each([
    ["throws", boom],
    ["rejects", rejects],
  ])("because it %s", (_how, onSkip) => {
    test("node-cron: shouldRun() answers false", async () => {
      const world = makeWorld();
      const { tenure } = await world.join("one");
      const coordinator = nodeCronCoordinator(tenure, { onSkip });
      const key = `tick:${new Date(world.clock.wallNow()).toISOString()}`;
      await coordinator.shouldRun(key, 30_000);
      await coordinator.onComplete(key);
      const warnings = await warningsOf(async () => {
        expect(await outcome(coordinator.shouldRun(key, 30_000))).toEqual({ value: false });
      });
      expect(warnings).toEqual(['onSkip for "tick" failed.']);
    });

    test("croner: the run resolves", async () => {
      const world = makeWorld();
      const { tenure } = await world.join("one");
      const now = new Date(world.clock.wallNow());
      const job = { currentRun: () => now, previousRuns: () => [now], nextRun: () => null };
      const run = oncePerFire(tenure, "job", { onSkip }, () => 1);
      await run(job);
      expect(await warningsOf(() => run(job))).toEqual(['onSkip for "job" failed.']);
    });

    test("nestjs: the method resolves", async () => {
      const { tenure } = await makeWorld().join("one");
      const jobs = host(tenure, { everyMs: 10_000, onSkip });
      await jobs.sweep();
      expect(await warningsOf(() => jobs.sweep())).toEqual(['onSkip for "sweep" failed.']);
    });
  });
});

/** An instance of a class with the decorator, with the properties that Nest would inject. */
function host(
  tenure: Tenure,
  options: Parameters<typeof OncePerFire>[1],
): { sweep(): Promise<unknown> } {
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
}

describe("nestjs", () => {
  const everyTen = { getNextDateFrom: (start: Date) => ({ toMillis: () => nextTen(+start) }) };
  const nextTen = (ms: number): number => (Math.floor(ms / 10_000) + 1) * 10_000;

  test.each([
    ["* * * * * *", "12:34:56"],
    ["* * 9 * * *", "09:59:59"],
    ["0 0 3 * * *", "03:00:00"],
  ])("%s: finding the last time within half a day takes few computations", (pattern, time) => {
    const cronTime = new CronTime(pattern, "UTC");
    const getNextDateFrom = vi.spyOn(cronTime, "getNextDateFrom");
    const now = Date.parse("2026-11-16T12:34:56.010Z");
    expect(findLastFire(cronTime, now, 43_200_000)).toBe(Date.parse(`2026-11-16T${time}.000Z`));
    expect(getNextDateFrom.mock.calls.length).toBeLessThan(50);
  });

  test.each([
    ["0 0 3 * * *", 86_400_000],
    ["0 30 2 * * 1-5", 43_200_000],
    ["*/7 * * * * *", 15_000],
    ["0 0 0 1 1 *", 43_200_000],
    ["0 */5 9-17 * * *", 3_600_000],
  ])(
    "%s: the last time within %i ms is the one that a search from the beginning finds",
    (pattern, reachMs) => {
      const cronTime = new CronTime(pattern, "Europe/Berlin");
      const next = (after: number): number => cronTime.getNextDateFrom(new Date(after)).toMillis();
      // Around both daylight saving changes of 2026, and around New Year.
      for (const day of ["2026-03-29", "2026-10-25", "2026-01-01"]) {
        for (let minute = -900; minute < 900; minute += 97) {
          const now = Date.parse(`${day}T01:00:00Z`) + minute * 60_000;
          let expected: number | undefined;
          for (let at = next(now - reachMs - 1); at <= now + 50; at = next(at)) expected = at;
          expect(findLastFire(cronTime, now, reachMs)).toBe(expected);
        }
      }
    },
  );

  test("the last time is the newest up to now or slightly later, and undefined if it is too long ago", () => {
    expect(findLastFire(everyTen, 20_000, 15_000)).toBe(20_000);
    expect(findLastFire(everyTen, 19_960, 15_000)).toBe(20_000);
    expect(findLastFire(everyTen, 19_900, 15_000)).toBe(10_000);
    expect(findLastFire(everyTen, 29_900, 15_000)).toBe(20_000);
    expect(findLastFire(everyTen, 29_900, 5_000)).toBeUndefined();
  });

  test("a method without a cron job of its name needs everyMs, and then runs once per period", async () => {
    const world = makeWorld();
    const { tenure } = await world.join("one");
    const skipped: string[] = [];
    const onSkip = ({ reason }: { reason: string }): void => void skipped.push(reason);
    await expect(host(tenure, {}).sweep()).rejects.toThrow(/no cron job of that name/);
    const jobs = host(tenure, { everyMs: 10_000, onSkip });
    expect(await jobs.sweep()).toBe("swept");
    expect(await jobs.sweep()).toBeUndefined();
    expect(skipped).toEqual(["taken"]);
    await flush();
    expect(() => OncePerFire("x")({}, "y", {} as never)).toThrow(/on a method/);
  });
});
