// `tenure plan` prints the consequences of a choice of durations. It does not contact a store.

import { availabilitySlack, type Timing } from "../../core/timing.ts";
import { EXIT } from "../exit-codes.ts";
import { foldAfter } from "../output/text.ts";
import { timeline } from "../output/timeline.ts";
import type { Command } from "../parsing/arguments.ts";
import { formatDuration } from "../parsing/duration.ts";
import { parseTimingOptions, planTimingOptions } from "../parsing/timing-options.ts";

interface Load {
  readonly processes: number;
  readonly leases: number;
}

export const planCommand: Command = async ({ options }, output) => {
  const load = {
    processes: options.count("processes") ?? 1,
    leases: options.count("leases") ?? 1,
  };
  const timing = planTimingOptions(parseTimingOptions(options));
  output.answer(
    () => formatPlan(timing, load, output.width),
    () => ({ timing, ...computeConsequences(timing, load) }),
  );
  return EXIT.ok;
};

function computeConsequences(timing: Timing, load: Load): Record<string, unknown> {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = timing;
  return {
    safety: { holds: true, slackMs: marginMs - clockErrorMs - roundTripMs },
    availability: { holds: true, slackMs: availabilitySlack(timing) },
    holderStopsAfterMs: ttlMs - marginMs,
    crashGapMs: ttlMs + roundTripMs,
    handoverGapMs: 2 * roundTripMs,
    renewalsPerMinute: (load.processes * 60_000) / renewEveryMs,
    ...load,
  };
}

function formatPlan(timing: Timing, load: Load, width: number): string[] {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = timing;
  const row = (name: string, ms: number, meaning: string): string[] =>
    foldAfter(`  ${name.padEnd(18)}${formatDuration(ms).padStart(9)}  `, meaning, width);
  const safetyMs = marginMs - clockErrorMs - roundTripMs;
  return [
    "Durations",
    ...row("ttl", ttlMs, "how long a grant lasts without renewal"),
    ...row("renew-every", renewEveryMs, "one renewal for all leases of a process"),
    ...row(
      "clock-error",
      clockErrorMs,
      "how far the clocks of machine and store may drift apart in one ttl",
    ),
    ...row("round-trip", roundTripMs, "a slower renewal puts the lease in doubt"),
    ...row("margin", marginMs, "how long before expiry the holder stops"),
    "",
    "Inequalities",
    `  safety        margin >= clock-error + round-trip             holds, ${formatDuration(safetyMs)} to spare`,
    `  availability  2 * renew-every + round-trip <= ttl - margin   holds, ${formatDuration(availabilitySlack(timing))} to spare`,
    "",
    "Worst case",
    ...row(
      "after a crash",
      ttlMs + roundTripMs,
      "until a waiter holds the lease, plus the lag of the store",
    ),
    ...row("planned handover", 2 * roundTripMs, "two round trips, if the store notifies waiters"),
    ...row("isolated holder", ttlMs - marginMs, "stops this long after its last renewal"),
    "",
    "Load on the store",
    ...describeLoad(timing, load).flatMap((line) => foldAfter("  ", line, width)),
    "",
    ...timeline(timing),
  ];
}

function describeLoad({ renewEveryMs }: Timing, { processes, leases }: Load): string[] {
  const each = 60_000 / renewEveryMs;
  const all = each * processes;
  const processText = processes === 1 ? "1 process" : `${processes} processes`;
  const leaseText = leases === 1 ? "1 lease" : `${leases} leases`;
  return [
    `${formatCount(all)} renewals per minute (${formatCount(all / 60)} per second): ${processText} with ${leaseText} each, ${formatCount(each)} per process.`,
    "A renewal is one request and one small write for all leases of a process. On sqlite and postgres it is one commit.",
    "Each grant and each release is one more request.",
  ];
}

function formatCount(count: number): string {
  return count >= 100 ? String(Math.round(count)) : String(Number(count.toPrecision(3)));
}
