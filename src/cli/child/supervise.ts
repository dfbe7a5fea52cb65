// Runs a command under a lease from its first to its last process. Resolves only when the whole group has ended, so that
// whoever releases afterwards releases nothing that is still in use (S6).

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
  /** The command is not to know the URL of the store. */
  readonly hidesStore: boolean;
  /** Aborts when the command should end although the lease is held. */
  readonly stopping?: AbortSignal;
}

export interface Supervised {
  /** What a shell would show; undefined when the command never started. */
  readonly exitCode: number | undefined;
  /** Why the lease was lost, if it was: before the command's end nobody can say whether another held it, too. */
  readonly lost: string | undefined;
  /** The group was killed and is still there: the lease must be left to its ttl. */
  readonly stuck: boolean;
}

/** How often the process table is looked at when the command has ended and others of its group have not. */
const REST_POLL_MS = 20;

export async function supervise(parts: Supervision): Promise<Supervised> {
  const { lease, clock, relay } = parts;
  const group = await start(parts);
  if (typeof group === "string") return { exitCode: undefined, lost: group, stuck: false };
  const enforcer = new DeadlineEnforcer({ group, lease, clock, killAfterMs: parts.killAfterMs });
  relay.to({
    pass: (signal) => group.signal(signal),
    // Stopped first and continued last: it never runs while we cannot watch, nor after the lease was lost meanwhile.
    suspend: () => group.signal("SIGSTOP"),
    resume: () => {
      enforcer.look();
      if (!enforcer.hasKilled) group.signal("SIGCONT");
    },
  });
  const onStop = (): void => enforcer.end();
  if (parts.stopping?.aborted) onStop();
  parts.stopping?.addEventListener("abort", onStop, { once: true });
  try {
    const gaveUp = enforcer.gaveUp.then(() => undefined);
    const exit = await Promise.race([group.exited, gaveUp]);
    const cleared = exit !== undefined && (await clearRest(group, enforcer, clock));
    // Also when nothing had to be killed: frozen for longer than the lease, we hear of the command's end first.
    const lost = enforcer.lost ?? lossOf(lease);
    if (cleared) await group.close();
    return { exitCode: exit && codeOf(exit), lost, stuck: !cleared };
  } finally {
    parts.stopping?.removeEventListener("abort", onStop);
    relay.to(undefined);
    enforcer.stop();
  }
}

/** The group, or why the lease does not allow one any more. */
async function start(parts: Supervision): Promise<ChildGroup | string> {
  const { command, lease, clock, killAfterMs } = parts;
  const mayStart = (): void => {
    lease.check();
    if (lease.safeUntil - clock.now() <= killAfterMs) throw new TooLate();
  };
  try {
    return await ChildGroup.start(command, environment(parts), mayStart);
  } catch (error) {
    const over =
      error instanceof TooLate ||
      isTenureError(error, "LEASE_LOST") ||
      isTenureError(error, "LEASE_IN_DOUBT");
    if (over) return error.message;
    throw error;
  }
}

class TooLate extends Error {
  override readonly message = "The lease was too near its end to start the command.";
}

function environment({ lease, clock, hidesStore }: Supervision): NodeJS.ProcessEnv {
  const hostNow = Number(process.hrtime.bigint() / 1_000n) / 1_000;
  return {
    ...process.env,
    ...(hidesStore ? { TENURE_STORE: HIDDEN_STORE } : {}),
    TENURE_RESOURCE: lease.resource,
    TENURE_TOKEN: formatToken(lease.token),
    TENURE_SAFE_UNTIL_MS: String(Math.floor(hostNow + lease.safeUntil - clock.now())),
  };
}

/** The command has ended: what it left behind in its group has no lease to go on with. False when that cannot be killed. */
async function clearRest(
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

function lossOf(lease: Lease): string | undefined {
  // Asked before `signal`, which alone would not look at the clock.
  try {
    lease.check();
    return undefined;
  } catch (error) {
    return isTenureError(error, "LEASE_LOST") ? error.message : undefined;
  }
}

function codeOf({ code, signal }: GroupExit): number {
  return code ?? EXIT.signal + (signalNumber(signal ?? "") ?? 0);
}
