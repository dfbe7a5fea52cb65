// Shuts a process down on SIGTERM or SIGINT: leaders resign, work in flight finishes, leases are
// released. The exit code reports whether that was done in time. In a rolling deploy, no successor
// then has to wait for a ttl (L4).

import type { Clock } from "./async/clock.ts";
import { badDelay, isDelay } from "./async/waits.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import { checkOptionNames, type OptionNames } from "./core/options.ts";
import { endProcess, onSignals, signalNumber } from "./runtime/process-end.ts";
import { systemParts, warn } from "./runtime/system.ts";
import type { Tenure } from "./tenure.ts";

/** Options of onShutdown(). */
export interface ShutdownOptions {
  /**
   * The process ends at most this long after the signal. Keep it below the time that your
   * supervisor waits before SIGKILL (Kubernetes: terminationGracePeriodSeconds minus the preStop
   * hook). Too small: work is cut short, and a lease may be left to expire. @default 25000
   */
  readonly graceMs?: number | undefined;
  /** The signals to handle. @default ["SIGTERM", "SIGINT"] */
  readonly signals?: readonly NodeJS.Signals[] | undefined;
  /** Runs first: stop accepting requests, close servers. An error is reported, then ignored. */
  readonly before?: (() => unknown) | undefined;
}

const SHUTDOWN_OPTIONS: OptionNames<ShutdownOptions> = {
  graceMs: true,
  signals: true,
  before: true,
};

/** The share of the time in which work may finish by itself. Then the signals of leases abort. */
const DRAIN_SHARE = 0.8;
const DEFAULT_GRACE_MS = 25_000;

/**
 * On the first signal: runs `before`, closes each Tenure and exits with code 0, or with code 1 if
 * `before` failed or `graceMs` passed. A second signal ends the process immediately. Returns a
 * function that removes the handlers.
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
    throw new InvalidArgumentError(`\`signals\` has an unknown signal: ${String(signal)}.`);
  }
  const { clock } = systemParts();
  let begun = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (begun) endProcess(128 + (signalNumber(signal) ?? 0));
    begun = true;
    void shutDown(clock, [tenures].flat(), { graceMs, before });
  };
  return onSignals(signals, onSignal);
}

async function shutDown(
  clock: Clock,
  tenures: readonly Tenure[],
  { graceMs, before }: Pick<ShutdownOptions, "before"> & { readonly graceMs: number },
): Promise<never> {
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
