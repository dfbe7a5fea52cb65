// A planned end for a whole process: at SIGTERM leaders resign, work in flight finishes, leases are released, and the exit
// code tells whether that was done in time. Made for a rolling deploy: no successor has to wait for a ttl (L4).

import type { Clock } from "./async/clock.ts";
import { badDelay, isDelay } from "./async/waits.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import { checkOptionNames, type OptionNames } from "./core/options.ts";
import { endProcess, onSignals, signalNumber } from "./runtime/process-end.ts";
import { systemParts, warn } from "./runtime/system.ts";
import type { Tenure } from "./tenure.ts";

export interface ShutdownOptions {
  /**
   * From the signal until the process ends, come what may. Keep it below what your supervisor waits before SIGKILL
   * (Kubernetes: terminationGracePeriodSeconds, less its preStop). Too small: work is cut short, and a lease may be left to
   * its ttl. @default 25000
   */
  readonly graceMs?: number | undefined;
  /** @default ["SIGTERM", "SIGINT"] */
  readonly signals?: readonly NodeJS.Signals[] | undefined;
  /** Runs first: stop taking requests, close servers. What it throws is reported, and the shutdown goes on. */
  readonly before?: (() => unknown) | undefined;
}

const SHUTDOWN_OPTIONS: OptionNames<ShutdownOptions> = {
  graceMs: true,
  signals: true,
  before: true,
};

/** The part of the time that work gets to end by itself; in the rest it is told that its lease is over. */
const DRAIN_SHARE = 0.8;
const DEFAULT_GRACE_MS = 25_000;

/**
 * On the first signal: `before`, then close() of each Tenure, then exit code 0; code 1 when that took longer than
 * `graceMs`. A second signal ends the process at once. Returns the function that takes the handlers off again.
 */
export function onShutdown(
  tenures: Tenure | readonly Tenure[],
  options: ShutdownOptions = {},
): () => void {
  checkOptionNames("onShutdown()", options, SHUTDOWN_OPTIONS);
  const { graceMs = DEFAULT_GRACE_MS, signals = ["SIGTERM", "SIGINT"], before } = options;
  if (!isDelay(graceMs) || graceMs === Number.POSITIVE_INFINITY) throw badDelay("graceMs", graceMs);
  for (const signal of signals) {
    if (signalNumber(signal) !== undefined) continue;
    throw new InvalidArgumentError(`\`signals\` has no such signal: ${String(signal)}.`);
  }
  const { clock } = systemParts();
  const all = [tenures].flat();
  let begun = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (begun) endProcess(128 + (signalNumber(signal) ?? 0));
    begun = true;
    void shutDown({ clock, tenures: all, graceMs, before });
  };
  return onSignals(signals, onSignal);
}

interface Plan {
  readonly clock: Clock;
  readonly tenures: readonly Tenure[];
  readonly graceMs: number;
  readonly before: (() => unknown) | undefined;
}

async function shutDown({ clock, tenures, graceMs, before }: Plan): Promise<never> {
  const endsAt = clock.now() + graceMs;
  clock.setTimer(() => endProcess(1), graceMs, { keepAlive: true });
  let code = 0;
  try {
    await before?.();
  } catch (error) {
    warn("`before` of onShutdown() failed.", error);
    code = 1;
  }
  const drainMs = Math.max(0, endsAt - clock.now()) * DRAIN_SHARE;
  await Promise.all(tenures.map((tenure) => tenure.close({ drainMs })));
  return endProcess(code);
}
