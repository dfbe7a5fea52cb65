// Goal: `tenure doctor` recommends valid durations and reports every problem. Method: the rules on
// invented measurements and invented files of the host.
import { describe, expect, test } from "vitest";
import { planTiming } from "../../core/timing.ts";
import { advise, type Facts, percentiles } from "./advice.ts";
import { computeLosses, readHost } from "./host.ts";

const GUARANTEES = {
  store: "made-up",
  tokenSource: "a counter",
  tokenFalls: "never",
  expiryClock: "the store's",
  ttlStepMs: 1,
  expiryLagMs: 0,
  wakeUp: "push",
  fifo: true,
  durable: true,
} as const;

function facts(changes: Partial<Facts> = {}, renewMs = 5, lateMs = 1): Facts {
  const many = (ms: number): number[] => Array.from({ length: 2_000 }, () => ms);
  return {
    measured: { renewMs: many(renewMs), grantMs: many(renewMs), lateMs: many(lateMs), failures: 0 },
    host: { throttledMs: 0, stolenShare: 0 },
    guarantees: GUARANTEES,
    suspendSafe: true,
    ttlMs: 10_000,
    forMs: 5_000,
    ...changes,
  };
}

describe("advice", () => {
  test("healthy measurements give no problems and a valid plan", () => {
    const { breaks, recommended } = advise(facts());
    expect(breaks).toEqual([]);
    expect(recommended).toMatchObject({ ttlMs: 10_000, roundTripMs: 100 });
    expect(planTiming(recommended)).toEqual(recommended);
  });

  test("slow round trips and long pauses recommend a longer, valid ttl", () => {
    for (const [renewMs, lateMs] of [
      [400, 1],
      [5, 3_000],
      [2_000, 2_000],
      [4_999, 10_000],
    ] as const) {
      const { breaks, recommended } = advise(facts({}, renewMs, lateMs));
      expect(breaks.join()).toContain("A ttl of 10s is too short");
      expect(recommended.roundTripMs).toBeGreaterThanOrEqual(renewMs + lateMs);
      expect(planTiming(recommended)).toEqual(recommended);
    }
  });

  test("failed requests, a store that is not durable and an unsafe clock are problems", () => {
    const measured = { ...facts().measured, failures: 3 };
    const guarantees = { ...GUARANTEES, durable: false };
    const { breaks } = advise(facts({ measured, guarantees, suspendSafe: false }));
    expect(breaks).toHaveLength(3);
  });

  test("throttling, steal and polling are warnings", () => {
    const host = { throttledMs: 40, stolenShare: 0.2 };
    const guarantees = { ...GUARANTEES, wakeUp: "poll" as const };
    const warnings = advise(facts({ host, guarantees })).warnings.join("\n");
    expect(warnings).toMatch(/stopped its processes for 40.0 ms/);
    expect(warnings).toMatch(/took 20.0 %/);
    expect(warnings).toMatch(/poll/);
  });

  test("percentiles are taken from the values", () => {
    const values = Array.from({ length: 1_000 }, (_, index) => index + 1);
    expect(percentiles(values)).toEqual({
      count: 1_000,
      p50: 500,
      p90: 900,
      p99: 990,
      p999: 999,
      max: 1_000,
    });
    expect(percentiles([]).max).toBe(0);
  });
});

describe("the host", () => {
  const stat = (steal: number): string => `cpu  10 0 10 70 0 0 10 ${steal} 5 0\ncpu0 1 1\n`;

  test("throttling and steal are read from cgroup v2 and v1, and are undefined elsewhere", () => {
    const newer: Record<string, string> = {
      "/proc/stat": stat(0),
      "/proc/self/cgroup": "0::/slice/job\n",
      "/sys/fs/cgroup/slice/job/cpu.stat": "nr_periods 1\nthrottled_usec 5000\n",
    };
    const before = readHost((path) => newer[path]);
    expect(before.throttledMs).toBe(5);
    const older: Record<string, string> = {
      "/proc/stat": stat(100),
      "/sys/fs/cgroup/cpu/cpu.stat": "nr_throttled 1\nthrottled_time 9000000\n",
    };
    const after = readHost((path) => older[path]);
    expect(computeLosses(before, after)).toEqual({ throttledMs: 4, stolenShare: 1 });
    const nothing = readHost(() => undefined);
    expect(computeLosses(nothing, nothing)).toEqual({
      throttledMs: undefined,
      stolenShare: undefined,
    });
  });
});
