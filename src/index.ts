// The front door: every public name, one by one. What is not listed here or in a subpath of package.json is internal.

export type { Clock, ClockJump, HostClock, Random, Timer, TimerOptions } from "./async/clock.ts";
export { type ConnectOptions, connect } from "./connect.ts";
export {
  AcquireTimeoutError,
  ClosedError,
  DrainingError,
  type ErrorByCode,
  type ErrorCode,
  GuardUnavailableError,
  InvalidArgumentError,
  isTenureError,
  LeaseInDoubtError,
  LeaseLostError,
  type LossReason,
  StaleTokenError,
  StoreUnavailableError,
  StoreUnusableError,
  TenureError,
  TokenRegressionError,
  type UntrustedReason,
  UntrustedTokenError,
} from "./core/errors.ts";
export {
  explainTiming,
  planTiming,
  type Timing,
  TimingError,
  type TimingOptions,
  type TimingRule,
} from "./core/timing.ts";
export { formatToken, padToken, parseToken } from "./core/token.ts";
export type {
  Election,
  ElectionOptions,
  ElectionState,
  LeaderAnswer,
  ObserveOptions,
  Resignation,
  ResignOptions,
} from "./election/election.ts";
export type { ElectionEvent } from "./election/events.ts";
export type { Leader } from "./election/observe.ts";
export type { Lead } from "./election/reign.ts";
export type { Advanceable } from "./holder/advance.ts";
export { currentLease } from "./holder/context.ts";
export type { Handover, HandoverOptions } from "./holder/handover.ts";
export type { Lease, ReleaseOptions, ReleaseResult } from "./holder/lease.ts";
export type {
  AcquireOptions,
  CloseOptions,
  LeaseOptions,
  ReadOptions,
  WatchOptions,
} from "./holder/leases.ts";
export type { Fire } from "./once/fire.ts";
export type { OnceOptions, OnceResult, OnceWork, Skipped } from "./once/once.ts";
export { onShutdown, type ShutdownOptions } from "./shutdown.ts";
export type {
  Consistency,
  Guarantees,
  HolderView,
  LeaseView,
  OpenStore,
  ReadAnswer,
  Store,
} from "./stores/contract.ts";
export type { Tenure } from "./tenure.ts";
