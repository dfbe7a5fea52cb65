// Reads how much CPU time this process loses to throttling by its control group and to the
// hypervisor (steal). Only Linux reports this; on other systems the values are undefined.

import { readFileSync } from "node:fs";

export interface HostReading {
  /** Since the control group was created, in milliseconds. */
  readonly throttledMs: number | undefined;
  /** Sum over all CPUs, in clock ticks since boot. */
  readonly stolenTicks: number | undefined;
  readonly allTicks: number | undefined;
}

export interface HostLosses {
  readonly throttledMs: number | undefined;
  /** From 0 to 1. */
  readonly stolenShare: number | undefined;
}

export function readHost(read: (path: string) => string | undefined = readText): HostReading {
  const ticks = /^cpu +(.*)$/m
    .exec(read("/proc/stat") ?? "")?.[1]
    ?.split(" ")
    .map(Number);
  // user nice system idle iowait irq softirq steal. Guest time is already included in user.
  const counted = ticks?.slice(0, 8);
  return {
    throttledMs: readThrottledMs(read),
    stolenTicks: counted?.[7],
    allTicks: counted?.reduce((sum, count) => sum + count, 0),
  };
}

export function computeLosses(before: HostReading, after: HostReading): HostLosses {
  const difference = (name: keyof HostReading): number | undefined => {
    const [from, to] = [before[name], after[name]];
    return from === undefined || to === undefined ? undefined : to - from;
  };
  const [stolen, all] = [difference("stolenTicks"), difference("allTicks")];
  return {
    throttledMs: difference("throttledMs"),
    stolenShare: stolen === undefined || !all ? undefined : stolen / all,
  };
}

function readThrottledMs(read: (path: string) => string | undefined): number | undefined {
  const own = /^0::(\/.*)$/m.exec(read("/proc/self/cgroup") ?? "")?.[1] ?? "/";
  const paths = [`/sys/fs/cgroup${own}/cpu.stat`, "/sys/fs/cgroup/cpu.stat"];
  for (const text of paths.map(read)) {
    const microseconds = /^throttled_usec (\d+)$/m.exec(text ?? "")?.[1];
    if (microseconds !== undefined) return Number(microseconds) / 1_000;
  }
  // cgroup v1 counts nanoseconds.
  const nanoseconds = /^throttled_time (\d+)$/m.exec(
    read("/sys/fs/cgroup/cpu/cpu.stat") ?? "",
  )?.[1];
  return nanoseconds === undefined ? undefined : Number(nanoseconds) / 1e6;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
