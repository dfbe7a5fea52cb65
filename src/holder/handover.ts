// Planned handover: after the release, see the successor take over before going away. Tells who it is and how long the
// resource was nobody's, so that a deploy can show its own gap.

import type { Clock } from "../async/clock.ts";
import { untilAborted } from "../async/signals.ts";
import { checkDelay } from "../async/waits.ts";
import { checkOptionNames } from "../core/options.ts";
import type { LeaseRef, Store } from "../stores/contract.ts";
import type { ReleaseOptions, ReleaseResult } from "./lease.ts";
import { HANDOVER_OPTIONS } from "./option-names.ts";

export interface HandoverOptions extends ReleaseOptions {
  /** How long to wait for a successor. Too small: it is not seen. Too large: shutdown takes that long without one. */
  readonly waitMs: number;
  /** @internal Others may hold it for a moment and let this holder pass: they are told only when it does not come. */
  readonly preferred?: string | undefined;
}

export interface Handover {
  readonly release: ReleaseResult;
  /** Absent when nobody took over within `waitMs`. */
  readonly successor?: { readonly holderId: string; readonly token: bigint } | undefined;
  /** From the end of the release until the successor was seen, or until the wait ran out. */
  readonly waitedMs: number;
}

interface Parts {
  readonly store: Store;
  readonly clock: Clock;
  readonly lease: LeaseRef;
  readonly result: ReleaseResult;
}

export async function untilSucceeded(parts: Parts, options: HandoverOptions): Promise<Handover> {
  const { store, clock, lease, result } = parts;
  if (options.waitMs === 0) return { release: result, waitedMs: 0 };
  const startedAt = clock.now();
  let successor: Handover["successor"];
  const giveUp = new AbortController();
  const { signal } = giveUp;
  const timer = clock.setTimer(() => giveUp.abort(), options.waitMs, { keepAlive: true });
  try {
    const views = store.watch({ prefix: lease.resource, signal });
    for await (const view of untilAborted(views, signal)) {
      if (view.resource !== lease.resource || view.holder === undefined) continue;
      const { holderId, token } = view.holder;
      if (token <= lease.token) continue;
      successor = { holderId, token };
      if (options.preferred === undefined || options.preferred === holderId) break;
    }
    return {
      release: result,
      ...(successor === undefined ? {} : { successor }),
      waitedMs: clock.now() - startedAt,
    };
  } finally {
    timer.cancel();
    giveUp.abort();
  }
}

export function checkHandover(options: HandoverOptions): void {
  checkOptionNames("handover()", options, HANDOVER_OPTIONS);
  checkDelay("waitMs", options?.waitMs);
}
