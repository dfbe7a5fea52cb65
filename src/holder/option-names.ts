// The names of the options of leases, for core/options.ts. Each list is typed by the interface it belongs to.

import type { OptionNames } from "../core/options.ts";
import { TIMING_OPTIONS } from "../core/timing.ts";
import type { HandoverOptions } from "./handover.ts";
import type { ReleaseOptions } from "./lease.ts";
import type {
  AcquireOptions,
  CloseOptions,
  LeaseOptions,
  ReadOptions,
  WatchOptions,
} from "./leases.ts";

export const LEASE_OPTIONS: OptionNames<LeaseOptions> = {
  ...TIMING_OPTIONS,
  whileInDoubt: true,
  value: true,
  guards: true,
};

export const ACQUIRE_OPTIONS: OptionNames<AcquireOptions> = {
  ...LEASE_OPTIONS,
  waitMs: true,
  signal: true,
  onAsk: "internal",
};

export const READ_OPTIONS: OptionNames<ReadOptions> = { consistency: true };

export const WATCH_OPTIONS: OptionNames<WatchOptions> = { signal: true, onCaughtUp: true };

export const CLOSE_OPTIONS: OptionNames<CloseOptions> = { drainMs: true };

export const RELEASE_OPTIONS: OptionNames<ReleaseOptions> = { drainMs: true };

export const HANDOVER_OPTIONS: OptionNames<HandoverOptions> = {
  ...RELEASE_OPTIONS,
  waitMs: true,
  preferred: "internal",
};
