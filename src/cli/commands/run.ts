// `tenure run`: acquire, run the command, release. The command's safety is child/supervise.ts; this is the order of things and
// what is said about them.

import { isTenureError } from "../../core/errors.ts";
import { checkResource } from "../../core/resource.ts";
import type { Lease } from "../../holder/lease.ts";
import { markBegun } from "../../once/markers.ts";
import type { Occurrence } from "../../once/occurrence.ts";
import { signalNumber } from "../../runtime/process-end.ts";
import { systemParts } from "../../runtime/system.ts";
import type { Parsed } from "../arguments.ts";
import { checkExecutable } from "../child/executable.ts";
import { supervise } from "../child/supervise.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { type Opened, openSharedStore } from "../open-store.ts";
import { Relay } from "../relay.ts";
import { type RunTiming, runTiming } from "../timing-options.ts";
import { UsageError } from "../usage-error.ts";
import type { Voice } from "../voice.ts";
import { windowOf } from "../window.ts";

interface Plan extends RunTiming {
  readonly resource: string;
  readonly command: readonly string[];
  readonly waitMs: number;
  readonly restart: boolean;
  readonly hidesStore: boolean;
  /** The window that may have one run, with --once-per. */
  readonly window: Occurrence | undefined;
}

/** Whoever looks on is told what is waited for. */
const SILENT_MS = 1_000;

export const runCommand: Command = async (parsed, voice) => {
  const plan = planOf(parsed);
  checkExecutable(plan.command);
  const relay = new Relay();
  const opened = await openSharedStore(parsed.options);
  const { code, releasable } = await new Run(plan, opened, relay, voice).untilDone();
  // A lease under which something still runs is left to its ttl.
  if (releasable) await opened.tenure.close({ drainMs: 0 });
  return code;
};

function planOf({ positionals, command, options }: Parsed): Plan {
  const windowMs = options.duration("once-per");
  const wait = options.duration("wait");
  if (wait !== undefined && options.has("no-wait"))
    throw new UsageError("--wait and --no-wait contradict each other: give one of them.");
  if (windowMs !== undefined && options.has("restart")) {
    throw new UsageError(
      "--once-per and --restart contradict each other: a second run in the same window would not be one.",
    );
  }
  const resource = checkResource(positionals[0]);
  const noWait = options.has("no-wait") || windowMs !== undefined;
  return {
    ...runTiming(options),
    resource,
    command,
    waitMs: wait ?? (noWait ? 0 : Number.POSITIVE_INFINITY),
    restart: options.has("restart"),
    hidesStore: options.has("hide-store"),
    window: windowMs === undefined ? undefined : windowOf(resource, windowMs),
  };
}

interface Ending {
  readonly code: number;
  readonly releasable: boolean;
}

const ended = (code: number): Ending => ({ code, releasable: true });

class Run {
  readonly #plan: Plan;
  readonly #opened: Opened;
  readonly #relay: Relay;
  readonly #voice: Voice;

  constructor(plan: Plan, opened: Opened, relay: Relay, voice: Voice) {
    this.#plan = plan;
    this.#opened = opened;
    this.#relay = relay;
    this.#voice = voice;
  }

  async untilDone(): Promise<Ending> {
    for (;;) {
      const ending = await this.#once();
      if (ending !== undefined) return ending;
    }
  }

  /** One acquisition and one run of the command; undefined when another is due. */
  async #once(): Promise<Ending | undefined> {
    const { command, killAfterMs, restart, resource, hidesStore } = this.#plan;
    const lease = await this.#acquire();
    if (typeof lease === "number") return ended(lease);
    if (!(await this.#takeWindow(lease))) return ended(this.#taken());
    this.#voice.aside(`holds "${resource}", token ${lease.token}.`, {
      event: "held",
      resource,
      token: lease.token,
    });
    const { clock } = systemParts();
    const relay = this.#relay;
    const end = await supervise({ command, lease, clock, killAfterMs, relay, hidesStore });
    if (end.stuck) return this.#leaveStuck();
    await this.#release(lease);
    if (end.lost === undefined) {
      const code = end.exitCode ?? EXIT.failed;
      if (this.#voice.json)
        this.#voice.note("", { event: "ended", by: "command", exitCode: code, token: lease.token });
      return ended(code);
    }
    this.#tellLoss(lease, end.lost, end.exitCode !== undefined);
    return restart && relay.endedBy === undefined ? undefined : ended(EXIT.lost);
  }

  /** The lease, or the exit code when there will be none. */
  async #acquire(): Promise<Lease | number> {
    const { resource, waitMs, timing } = this.#plan;
    const { clock } = systemParts();
    const patience = clock.setTimer(() => void this.#tellWaiting(), SILENT_MS);
    try {
      return await this.#opened.tenure.acquire(resource, {
        ...timing,
        waitMs,
        signal: this.#relay.ended,
      });
    } catch (error) {
      if (this.#relay.endedBy !== undefined)
        return EXIT.signal + (signalNumber(this.#relay.endedBy) ?? 0);
      if (!isTenureError(error, "ACQUIRE_TIMEOUT")) throw error;
      return this.#plan.window === undefined ? await this.#busy() : this.#taken();
    } finally {
      patience.cancel();
    }
  }

  async #busy(): Promise<number> {
    const { resource, waitMs } = this.#plan;
    const heldBy = await this.#heldBy();
    const who = heldBy === undefined ? "somebody else" : heldBy;
    const how = waitMs === 0 ? "" : " and the wait is over";
    this.#voice.note(`busy: "${resource}" is held by ${who}${how}.`, {
      event: "ended",
      by: "tenure",
      reason: "busy",
      exitCode: EXIT.busy,
      heldBy,
    });
    return EXIT.busy;
  }

  #taken(): number {
    this.#voice.aside(`"${this.#plan.resource}" has had its run in this window.`, {
      event: "ended",
      by: "tenure",
      reason: "taken",
      exitCode: EXIT.ok,
    });
    return EXIT.ok;
  }

  /** True when nobody has run in this window, or there is none. */
  async #takeWindow(lease: Lease): Promise<boolean> {
    const { timing, window } = this.#plan;
    if (window === undefined) return true;
    const { store, tenure } = this.#opened;
    const { holderId } = tenure;
    const parts = { ...systemParts(), store, holderId, limitMs: timing.roundTripMs };
    try {
      return (await markBegun(parts, window)).kind === "marked";
    } catch (error) {
      // Nothing was started: the others need not wait for the ttl.
      await lease.release();
      throw error;
    }
  }

  async #release(lease: Lease): Promise<void> {
    const result = await lease.release();
    if (result !== "unconfirmed") return;
    this.#voice.note(
      `the store did not confirm the release of "${lease.resource}"; it is free when the ttl is over.`,
      { event: "unconfirmed", resource: lease.resource },
    );
  }

  #tellLoss(lease: Lease, reason: string, started: boolean): void {
    const what = started ? "All of its process group was ended." : "The command was not started.";
    this.#voice.note(`lost: ${reason} ${what}`, {
      event: "ended",
      by: "tenure",
      reason: "lost",
      detail: reason,
      exitCode: EXIT.lost,
      token: lease.token,
    });
  }

  #leaveStuck(): Ending {
    this.#voice.note("the command was killed and does not die; the lease is left to its ttl.", {
      event: "ended",
      by: "tenure",
      reason: "stuck",
      exitCode: EXIT.lost,
    });
    return { code: EXIT.lost, releasable: false };
  }

  async #tellWaiting(): Promise<void> {
    const { resource } = this.#plan;
    const heldBy = await this.#heldBy();
    this.#voice.aside(`waits for "${resource}", held by ${heldBy ?? "nobody we can see"}.`, {
      event: "waiting",
      resource,
      heldBy,
    });
  }

  async #heldBy(): Promise<string | undefined> {
    const read = this.#opened.tenure.read(this.#plan.resource);
    return read.then(
      ({ holder }) => holder?.holderId,
      () => undefined,
    );
  }
}
