// `tenure run` acquires a lease, runs the command and releases the lease. child/supervise.ts keeps
// the command within the lease; this file decides the order of the steps and reports them.

import { isTenureError } from "../../core/errors.ts";
import { checkResource } from "../../core/resource.ts";
import type { Lease } from "../../holder/lease.ts";
import { markBegun } from "../../once/markers.ts";
import {
  type Occurrence,
  toPeriodic,
  WINDOW_MAX_MS,
  WINDOW_MIN_MS,
} from "../../once/occurrence.ts";
import { systemParts } from "../../runtime/system.ts";
import { type Opened, openSharedStore } from "../backends/open-store.ts";
import { checkExecutable } from "../child/executable.ts";
import { supervise } from "../child/supervise.ts";
import { UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import type { Output } from "../output/output.ts";
import type { Command, Parsed } from "../parsing/arguments.ts";
import { formatDuration } from "../parsing/duration.ts";
import { planRunTiming, type RunTiming } from "../parsing/timing-options.ts";
import { SignalRelay } from "../signal-relay.ts";

interface Plan extends RunTiming {
  readonly resource: string;
  readonly command: readonly string[];
  readonly waitMs: number;
  readonly restart: boolean;
  readonly hidesStore: boolean;
  /** With --once-per: the window in which the command may run once. */
  readonly window: Occurrence | undefined;
}

/** After waiting this long, we report the holder of the lease. */
const REPORT_WAIT_AFTER_MS = 1_000;

export const runCommand: Command = async (parsed, output) => {
  const plan = parsePlan(parsed);
  checkExecutable(plan.command);
  const relay = new SignalRelay();
  const opened = await openSharedStore(parsed.options);
  const { code, releasable } = await new Run(plan, opened, relay, output).run();
  // If processes of the command still run, the lease must not be released: it has to expire.
  if (releasable) await opened.tenure.close({ drainMs: 0 });
  return code;
};

function parsePlan({ positionals, command, options }: Parsed): Plan {
  const windowMs = options.duration("once-per");
  const wait = options.duration("wait");
  if (wait !== undefined && options.has("no-wait"))
    throw new UsageError("--wait and --no-wait contradict each other: use only one of them.");
  if (windowMs !== undefined && options.has("restart")) {
    throw new UsageError(
      "--once-per and --restart contradict each other: --once-per allows only one run per window.",
    );
  }
  const resource = checkResource(positionals[0]);
  const noWait = options.has("no-wait") || windowMs !== undefined;
  return {
    ...planRunTiming(options),
    resource,
    command,
    waitMs: wait ?? (noWait ? 0 : Number.POSITIVE_INFINITY),
    restart: options.has("restart"),
    hidesStore: options.has("hide-store"),
    window: windowMs === undefined ? undefined : parseWindow(resource, windowMs),
  };
}

/** The windows and markers of --once-per are those of oncePer(). */
function parseWindow(resource: string, windowMs: number): Occurrence {
  if (windowMs >= WINDOW_MIN_MS && windowMs <= WINDOW_MAX_MS)
    return toPeriodic(resource, { everyMs: windowMs });
  throw new UsageError(
    `--once-per must be from ${formatDuration(WINDOW_MIN_MS)} to ${formatDuration(WINDOW_MAX_MS)}, got ${formatDuration(windowMs)}.`,
  );
}

interface Ending {
  readonly code: number;
  readonly releasable: boolean;
}

const ended = (code: number): Ending => ({ code, releasable: true });

/** The facts of a message about an end that the command itself did not cause. */
function endedBecause(reason: string, exitCode: number, detail?: string): Record<string, unknown> {
  return { event: "ended", by: "tenure", reason, detail, exitCode };
}

class Run {
  readonly #plan: Plan;
  readonly #opened: Opened;
  readonly #relay: SignalRelay;
  readonly #output: Output;

  constructor(plan: Plan, opened: Opened, relay: SignalRelay, output: Output) {
    this.#plan = plan;
    this.#opened = opened;
    this.#relay = relay;
    this.#output = output;
  }

  async run(): Promise<Ending> {
    let ending: Ending | undefined;
    while (ending === undefined) ending = await this.#once();
    return ending;
  }

  /** Acquires once and runs the command once. Resolves with undefined if another round is due. */
  async #once(): Promise<Ending | undefined> {
    const { command, killAfterMs, restart, resource, hidesStore } = this.#plan;
    const lease = await this.#acquire();
    if (typeof lease === "number") return ended(lease);
    if (!(await this.#takeWindow(lease))) return ended(this.#reportTaken());
    const { token } = lease;
    const facts = { event: "held", resource, token };
    this.#output.noteIfWatched(`acquired "${resource}" with token ${token}.`, facts);
    const { clock } = systemParts();
    const relay = this.#relay;
    const end = await supervise({ command, lease, clock, killAfterMs, relay, hidesStore });
    if (end.stuck) return this.#reportStuck();
    await this.#release(lease);
    if (end.lost === undefined) {
      const exitCode = end.exitCode ?? EXIT.failed;
      if (this.#output.json)
        this.#output.note("", { event: "ended", by: "command", exitCode, token });
      return ended(exitCode);
    }
    this.#reportLoss(lease, end.lost, end.exitCode !== undefined);
    return restart && relay.endedBy === undefined ? undefined : ended(EXIT.lost);
  }

  /** Resolves with the lease, or with the exit code if it cannot be acquired. */
  async #acquire(): Promise<Lease | number> {
    const { resource, waitMs, timing } = this.#plan;
    const { clock } = systemParts();
    const reportTimer = clock.setTimer(() => void this.#reportWaiting(), REPORT_WAIT_AFTER_MS);
    try {
      return await this.#opened.tenure.acquire(resource, {
        ...timing,
        waitMs,
        signal: this.#relay.ended,
      });
    } catch (error) {
      if (this.#relay.endedBy !== undefined) return this.#relay.exitCode;
      if (!isTenureError(error, "ACQUIRE_TIMEOUT")) throw error;
      return this.#plan.window === undefined ? await this.#reportBusy() : this.#reportTaken();
    } finally {
      reportTimer.cancel();
    }
  }

  async #reportBusy(): Promise<number> {
    const { resource, waitMs } = this.#plan;
    const heldBy = await this.#findHolder();
    const who = heldBy ?? "another process";
    const how = waitMs === 0 ? "" : ", and the time to wait has passed";
    this.#output.note(`busy: "${resource}" is held by ${who}${how}.`, {
      ...endedBecause("busy", EXIT.busy),
      heldBy,
    });
    return EXIT.busy;
  }

  #reportTaken(): number {
    const { resource } = this.#plan;
    const facts = endedBecause("taken", EXIT.ok);
    this.#output.noteIfWatched(`"${resource}" has already run in this window.`, facts);
    return EXIT.ok;
  }

  /** Resolves with true if there is no window, or the command has not run in it yet. */
  async #takeWindow(lease: Lease): Promise<boolean> {
    const { timing, window } = this.#plan;
    if (window === undefined) return true;
    const { store, tenure } = this.#opened;
    const { holderId } = tenure;
    const parts = { ...systemParts(), store, holderId, limitMs: timing.roundTripMs };
    try {
      return (await markBegun(parts, window)).kind === "marked";
    } catch (error) {
      // Nothing was started, so other processes need not wait for the ttl.
      await lease.release();
      throw error;
    }
  }

  async #release(lease: Lease): Promise<void> {
    const result = await lease.release();
    if (result !== "unconfirmed") return;
    this.#output.note(
      `the store did not confirm the release of "${lease.resource}"; the lease expires after its ttl.`,
      { event: "unconfirmed", resource: lease.resource },
    );
  }

  #reportLoss(lease: Lease, reason: string, started: boolean): void {
    const what = started
      ? "The whole process group of the command was ended."
      : "The command was not started.";
    this.#output.note(`lost: ${reason} ${what}`, {
      ...endedBecause("lost", EXIT.lost, reason),
      token: lease.token,
    });
  }

  #reportStuck(): Ending {
    this.#output.note(
      "the command did not die after SIGKILL; the lease is not released and expires after its ttl.",
      endedBecause("stuck", EXIT.lost),
    );
    return { code: EXIT.lost, releasable: false };
  }

  async #reportWaiting(): Promise<void> {
    const { resource } = this.#plan;
    const heldBy = await this.#findHolder();
    const sentence = `waiting for "${resource}", held by ${heldBy ?? "an unknown holder"}.`;
    this.#output.noteIfWatched(sentence, { event: "waiting", resource, heldBy });
  }

  async #findHolder(): Promise<string | undefined> {
    const { tenure } = this.#opened;
    const answer = await tenure.read(this.#plan.resource).catch(() => undefined);
    return answer?.holder?.holderId;
  }
}
