// Runs a command while a lease is held. Resolves only when every process of the command's group has
// ended, so that the caller never releases a lease that is still in use (S6).

import type { Clock } from "../../async/clock.ts";
import { pause } from "../../async/waits.ts";
import { isTenureError } from "../../core/errors.ts";
import { formatToken } from "../../core/token.ts";
import type { Lease } from "../../holder/lease.ts";
import { signalNumber } from "../../runtime/process-end.ts";
import { HIDDEN_STORE } from "../backends/open-store.ts";
import { EXIT } from "../exit-codes.ts";
import type { SignalRelay } from "../signal-relay.ts";
import { DeadlineEnforcer } from "./deadline-enforcer.ts";
import { ChildGroup, type GroupExit } from "./group.ts";

export interface Supervision {
  readonly command: readonly string[];
  readonly lease: Lease;
  readonly clock: Clock;
  readonly killAfterMs: number;
  readonly relay: SignalRelay;
  /** Keep the URL of the store out of the command's environment. */
  readonly hidesStore: boolean;
  /** Aborts when the command should end although the lease is still held. */
  readonly stopping?: AbortSignal;
}

export interface Supervised {
  /** The exit code as a shell reports it. Undefined if the command did not start. */
  readonly exitCode: number | undefined;
  /** Why the lease was lost. Another process may have held it before the command ended. */
  readonly lost: string | undefined;
  /** The group did not die after SIGKILL. The lease must not be released: it has to expire. */
  readonly stuck: boolean;
}

/** How often we check for remaining processes of the group after the command itself has ended. */
const REST_POLL_MS = 20;

export async function supervise(parts: Supervision): Promise<Supervised> {
  const { lease, clock, relay } = parts;
  const group = await start(parts);
  if (typeof group === "string") return { exitCode: undefined, lost: group, stuck: false };
  const enforcer = new DeadlineEnforcer({ group, lease, clock, killAfterMs: parts.killAfterMs });
  relay.setTarget({
    pass: (signal) => group.signal(signal),
    // The command is stopped before this process and continued after it. It never runs while this
    // process cannot enforce the deadline, nor after the lease was lost in the meantime.
    suspend: () => group.signal("SIGSTOP"),
    resume: () => {
      enforcer.enforce();
      if (!enforcer.hasKilled) group.signal("SIGCONT");
    },
  });
  const onStop = (): void => enforcer.end();
  if (parts.stopping?.aborted) onStop();
  parts.stopping?.addEventListener("abort", onStop, { once: true });
  try {
    const gaveUp = enforcer.gaveUp.then(() => undefined);
    const exit = await Promise.race([group.exited, gaveUp]);
    const hasEnded = exit !== undefined && (await endRemaining(group, enforcer, clock));
    // The lease may be lost although nothing was killed: if this process was frozen, it may see the
    // exit of the command before it sees the loss.
    const lost = enforcer.lost ?? findLoss(lease);
    if (hasEnded) await group.close();
    return { exitCode: exit && toExitCode(exit), lost, stuck: !hasEnded };
  } finally {
    parts.stopping?.removeEventListener("abort", onStop);
    relay.setTarget(undefined);
    enforcer.stop();
  }
}

/** Starts the group. Resolves with the reason if the lease no longer allows it. */
async function start(parts: Supervision): Promise<ChildGroup | string> {
  const { command, lease, clock, killAfterMs } = parts;
  const checkStart = (): void => {
    lease.check();
    if (lease.safeUntil - clock.now() <= killAfterMs) throw new TooLateError();
  };
  try {
    return await ChildGroup.start(command, buildEnvironment(parts), checkStart);
  } catch (error) {
    const isLeaseOver =
      error instanceof TooLateError ||
      isTenureError(error, "LEASE_LOST") ||
      isTenureError(error, "LEASE_IN_DOUBT");
    if (isLeaseOver) return error.message;
    throw error;
  }
}

class TooLateError extends Error {
  override readonly message = "The lease was too close to its deadline to start the command.";
}

function buildEnvironment({ lease, clock, hidesStore }: Supervision): NodeJS.ProcessEnv {
  const hostNow = Number(process.hrtime.bigint() / 1_000n) / 1_000;
  return {
    ...process.env,
    ...(hidesStore ? { TENURE_STORE: HIDDEN_STORE } : {}),
    TENURE_RESOURCE: lease.resource,
    TENURE_TOKEN: formatToken(lease.token),
    TENURE_SAFE_UNTIL_MS: String(Math.floor(hostNow + lease.safeUntil - clock.now())),
  };
}

/**
 * Ends the processes that the command left in its group. They must not continue, because the lease
 * is about to be released. Resolves with false if they cannot be killed.
 */
async function endRemaining(
  group: ChildGroup,
  enforcer: DeadlineEnforcer,
  clock: Clock,
): Promise<boolean> {
  if (!group.isAlive) return true;
  enforcer.end();
  let stuck = false;
  void enforcer.gaveUp.then(() => {
    stuck = true;
  });
  while (group.isAlive) {
    if (stuck) return false;
    await pause(clock, REST_POLL_MS);
  }
  return true;
}

function findLoss(lease: Lease): string | undefined {
  // check() compares the deadline with the clock; `signal` alone would not.
  try {
    lease.check();
    return undefined;
  } catch (error) {
    return isTenureError(error, "LEASE_LOST") ? error.message : undefined;
  }
}

function toExitCode({ code, signal }: GroupExit): number {
  return code ?? EXIT.signal + (signalNumber(signal ?? "") ?? 0);
}
