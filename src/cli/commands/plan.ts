// `tenure plan`: what a choice of durations means before anyone uses it. No store is asked.

import { availabilitySlack, type Timing } from "../../core/timing.ts";
import type { Command } from "../command.ts";
import { formatDuration } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { hang } from "../text.ts";
import { timeline } from "../timeline.ts";
import { planFrom, timingOptions } from "../timing-options.ts";

interface Load {
  readonly processes: number;
  readonly leases: number;
}

export const planCommand: Command = async ({ options }, voice) => {
  const load = {
    processes: options.count("processes") ?? 1,
    leases: options.count("leases") ?? 1,
  };
  const timing = planFrom(timingOptions(options));
  voice.answer(
    () => describe(timing, load, voice.width),
    () => ({ timing, ...consequences(timing, load) }),
  );
  return EXIT.ok;
};

function consequences(timing: Timing, load: Load): Record<string, unknown> {
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

function describe(timing: Timing, load: Load, width: number): string[] {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = timing;
  const row = (name: string, ms: number, meaning: string): string[] =>
    hang(`  ${name.padEnd(18)}${formatDuration(ms).padStart(9)}  `, meaning, width);
  const safetyMs = marginMs - clockErrorMs - roundTripMs;
  return [
    "The five numbers",
    ...row("ttl", ttlMs, "a grant lasts this long without renewal"),
    ...row("renew-every", renewEveryMs, "one renewal for all leases of a process"),
    ...row(
      "clock-error",
      clockErrorMs,
      "this machine and the store may disagree so much over one ttl",
    ),
    ...row("round-trip", roundTripMs, "a slower renewal puts the lease in doubt"),
    ...row("margin", marginMs, "the holder stops so long before the store lets go"),
    "",
    "Both inequalities",
    `  safety        margin >= clock-error + round-trip             holds, ${formatDuration(safetyMs)} to spare`,
    `  availability  2 * renew-every + round-trip <= ttl - margin   holds, ${formatDuration(availabilitySlack(timing))} to spare`,
    "",
    "At worst",
    ...row("after a crash", ttlMs + roundTripMs, "until a waiter holds, plus the store's own lag"),
    ...row("planned handover", 2 * roundTripMs, "two round trips where the store wakes waiters"),
    ...row("a cut-off holder", ttlMs - marginMs, "acts no longer than this after its last renewal"),
    "",
    "Cost to the store",
    ...cost(timing, load).flatMap((line) => hang("  ", line, width)),
    "",
    ...timeline(timing),
  ];
}

function cost({ renewEveryMs }: Timing, { processes, leases }: Load): string[] {
  const each = 60_000 / renewEveryMs;
  const all = each * processes;
  const who = processes === 1 ? "1 process" : `${processes} processes`;
  const held = leases === 1 ? "1 lease" : `${leases} leases`;
  return [
    `${shown(all)} renewals a minute (${shown(all / 60)} a second): ${who} with ${held} each, ${shown(each)} a process.`,
    "A renewal is one request and one small write, whatever the number of leases; on sqlite and postgres one commit.",
    "Each grant and each release is one more.",
  ];
}

function shown(count: number): string {
  return count >= 100 ? String(Math.round(count)) : String(Number(count.toPrecision(3)));
}
