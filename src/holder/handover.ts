// Planned handover: after a release, waits until another holder has the resource. The caller
// learns which holder that is and how long the resource was free, so a deploy can report its gap.

import type { Clock } from "../async/clock.ts";
import { untilAborted } from "../async/signals.ts";
import { checkDelay } from "../async/waits.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import type { LeaseRef, Store } from "../stores/contract.ts";
import { RELEASE_OPTIONS, type ReleaseOptions, type ReleaseResult } from "./lease.ts";

/** Options of handover(). */
export interface HandoverOptions extends ReleaseOptions {
  /**
   * How long to wait for a successor. Too small: the successor is not seen. Too large: a shutdown
   * without a successor takes that long.
   */
  readonly waitMs: number;
}

const HANDOVER_OPTIONS: OptionNames<HandoverOptions> = { ...RELEASE_OPTIONS, waitMs: true };

/**
 * How a handover went. `handedOver` is false if no successor was seen within `waitMs`. `release` is
 * the result of the release; `waitedMs` runs from its end until the successor was seen or the wait
 * ended.
 */
export type Handover =
  | {
      readonly handedOver: true;
      readonly successor: Successor;
      readonly release: ReleaseResult;
      readonly waitedMs: number;
    }
  | {
      readonly handedOver: false;
      readonly successor?: undefined;
      readonly release: ReleaseResult;
      readonly waitedMs: number;
    };

/** The next holder of a resource that was handed over. */
export interface Successor {
  /** The `holderId` of the successor's Tenure. */
  readonly holderId: string;
  /** The fencing token of its lease, larger than that of the released lease. */
  readonly token: bigint;
}

/** How long other waiters may take to make room for a preferred one. */
const MAKE_ROOM_MS = 500;

interface WaitParts {
  readonly store: Store;
  readonly clock: Clock;
  /** The lease that was released. */
  readonly lease: LeaseRef;
  readonly release: ReleaseResult;
  readonly waitMs: number;
  /**
   * The holder to which the release was to hand off. On etcd and ZooKeeper the first waiter seems
   * to hold the resource until it has made room for a preferred one, so another holder is reported
   * only if the preferred one does not follow soon.
   */
  readonly preferred?: string | undefined;
}

export async function waitForSuccessor(parts: WaitParts): Promise<Handover> {
  const { store, clock, lease, release, waitMs, preferred } = parts;
  if (waitMs === 0) return { handedOver: false, release, waitedMs: 0 };
  const startedAt = clock.now();
  let successor: Successor | undefined;
  const giveUp = new AbortController();
  const { signal } = giveUp;
  const end = (): void => giveUp.abort();
  let timer = clock.setTimer(end, waitMs, { keepAlive: true });
  try {
    const views = store.watch({ prefix: lease.resource, signal });
    for await (const view of untilAborted(views, signal)) {
      if (view.resource !== lease.resource || view.holder === undefined) continue;
      const { holderId, token } = view.holder;
      if (token <= lease.token) continue;
      successor = { holderId, token };
      if (preferred === undefined || preferred === holderId) break;
      timer.cancel();
      const leftMs = startedAt + waitMs - clock.now();
      timer = clock.setTimer(end, Math.min(MAKE_ROOM_MS, leftMs), { keepAlive: true });
    }
    const waitedMs = clock.now() - startedAt;
    if (successor === undefined) return { handedOver: false, release, waitedMs };
    return { handedOver: true, successor, release, waitedMs };
  } finally {
    timer.cancel();
    giveUp.abort();
  }
}

export function checkHandover(options: HandoverOptions): void {
  checkOptionNames("handover()", options, HANDOVER_OPTIONS);
  checkDelay("waitMs", options?.waitMs);
}
