// Every public name of "tenure", one by one. Anything that is neither listed here nor exported by a
// subpath in package.json is internal.
//
// Results follow one rule. Expected outcomes are values; exceptions are for everything else.
// - A call that has something to return or nothing returns it or `undefined`: tryAcquire(),
//   revoke().
// - A call with several outcomes that carry no data returns one of several strings: release().
// - A call with outcomes that carry data returns an object with a boolean field, named after what
//   the call does, that narrows the type: `ran` of once() and oncePer(), `resigned` of resign() and
//   stop(), `handedOver` of handover(). Where there are several reasons for `false`, `reason` has
//   one of several strings.

export type { Clock, ClockJump, HostClock, Random, Timer, TimerOptions } from "./async/clock.ts";
export { type ConnectOptions, connect } from "./connect.ts";
export {
  AcquireTimeoutError,
  ClosedError,
  DrainingError,
  type ErrorByCode,
  type ErrorCode,
  type ErrorFacts,
  GuardUnavailableError,
  type HeldByWhom,
  InvalidArgumentError,
  isTenureError,
  LeaseInDoubtError,
  LeaseLostError,
  type LossReason,
  StaleTokenError,
  StoreUnavailableError,
  StoreUnusableError,
  TenureError,
  type TokenFacts,
  TokenRegressionError,
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
export { type UntrustedReason, UntrustedTokenError } from "./core/untrusted-token.ts";
export type {
  Election,
  ElectionOptions,
  ElectionState,
  Lead,
  LeaderAnswer,
  ObserveOptions,
  Resignation,
  ResignOptions,
} from "./election/election.ts";
export type { ElectionEvent } from "./election/events.ts";
export type { Leader } from "./election/observe.ts";
export type { Advanceable } from "./holder/advance.ts";
export { currentLease } from "./holder/context.ts";
export type { Handover, HandoverOptions, Successor } from "./holder/handover.ts";
export type { Lease, ReleaseOptions, ReleaseResult } from "./holder/lease.ts";
export type {
  AcquireOptions,
  CloseOptions,
  LeaseOptions,
  ReadOptions,
  SeveralOptions,
  TryAcquireOptions,
  WatchOptions,
} from "./holder/options.ts";
export type {
  OnceOptions,
  OncePerOptions,
  OnceResult,
  OnceWork,
  Skipped,
} from "./once/once.ts";
export { onShutdown, type ShutdownOptions } from "./shutdown.ts";
export type {
  Consistency,
  Guarantees,
  HolderView,
  LeaseView,
  OpenStore,
  ReadAnswer,
  ReadEvidence,
  Store,
} from "./stores/contract.ts";
export type { Tenure } from "./tenure.ts";
