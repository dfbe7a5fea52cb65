// --once-per: that a run has begun is remembered by a lease of its own that nobody renews and nobody releases, so it ends by
// the store's clock and needs no process to stay. A machine that fires later in the same window finds it held.

import type { Random } from "../core/clock.ts";
import { checkResource } from "../core/resource.ts";
import { TTL_MAX_MS } from "../core/timing.ts";
import type { Store } from "../stores/store.ts";
import { CommandError } from "./command-error.ts";
import { formatDuration } from "./duration.ts";
import { EXIT } from "./exit-codes.ts";
import { UsageError } from "./usage-error.ts";

/** Less than the window: the next fire comes one window after the last, give or take, and must find it over. */
const HELD_SHARE = 0.9;
const WINDOW_MIN_MS = 1_000;

export interface WindowRequest {
  readonly resource: string;
  readonly windowMs: number;
  readonly holderId: string;
  readonly limitMs: number;
}

export function windowResource(resource: string): string {
  return `${resource}@once`;
}

export function checkWindow(resource: string, windowMs: number): void {
  checkResource(windowResource(resource));
  if (windowMs >= WINDOW_MIN_MS && windowMs <= TTL_MAX_MS) return;
  throw new UsageError(
    `--once-per is from 1s to ${formatDuration(TTL_MAX_MS)}, got ${formatDuration(windowMs)}.`,
  );
}

/** True when this is the run of the window; false when another has had it. */
export async function takeWindow(
  store: Store,
  random: Random,
  request: WindowRequest,
): Promise<boolean> {
  const { holderId, limitMs, windowMs } = request;
  const sessionId = random.id();
  const ttlMs = Math.ceil(windowMs * HELD_SHARE);
  const opened = await store.openSession({ sessionId, holderId, ttlMs, limitMs });
  let granted = false;
  try {
    if (opened.ttlMs < ttlMs) throw tooShort(store, opened.ttlMs);
    const outcome = await store.grant({
      sessionId,
      resource: windowResource(request.resource),
      attempt: `${sessionId}.1`,
      holderId,
      value: { oncePerMs: windowMs },
      queue: false,
      limitMs,
    });
    granted = outcome.kind === "granted";
    return granted;
  } finally {
    // Also when the answer was lost: then nobody runs, and nobody is kept from it.
    if (!granted) await store.endSession({ sessionId, limitMs }).catch(() => undefined);
  }
}

function tooShort(store: Store, grantedMs: number): CommandError {
  const { store: name } = store.guarantees;
  return new CommandError(
    `--once-per cannot be kept: the ${name} store remembers a session for at most ${formatDuration(grantedMs)}. ` +
      "Use a shorter window or another store.",
    EXIT.unavailable,
    { code: "STORE_UNUSABLE" },
  );
}
