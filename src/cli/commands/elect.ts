// `tenure elect` runs a candidate that prints every leader and, if a command is given, runs it
// while leading.

import { once } from "node:events";
import { pause } from "../../async/waits.ts";
import { isTenureError } from "../../core/errors.ts";
import { checkResource } from "../../core/resource.ts";
import type { Election } from "../../election/election.ts";
import type { ElectionEvent } from "../../election/events.ts";
import type { Leader } from "../../election/observe.ts";
import { RANK_MAX } from "../../election/options.ts";
import type { Lease } from "../../holder/lease.ts";
import { systemParts } from "../../runtime/system.ts";
import { openSharedStore } from "../backends/open-store.ts";
import { checkExecutable } from "../child/executable.ts";
import { supervise } from "../child/supervise.ts";
import { UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import type { Output } from "../output/output.ts";
import type { Command } from "../parsing/arguments.ts";
import { planRunTiming, type RunTiming } from "../parsing/timing-options.ts";
import { SignalRelay } from "../signal-relay.ts";

const FOLLOW_AGAIN_MS = 1_000;

export const electCommand: Command = async ({ positionals, command, options }, output) => {
  const name = checkResource(positionals[0]);
  const timing = planRunTiming(options);
  const rank = parseRank(options.text("rank"));
  if (command.length > 0) checkExecutable(command);
  const relay = new SignalRelay();
  const candidate = new Candidate({
    command,
    relay,
    output,
    timing,
    name,
    hidesStore: options.has("hide-store"),
  });
  const { tenure } = await openSharedStore(options);
  const election = tenure.election(name, {
    ...timing.timing,
    rank,
    value: parseValue(options.text("value")),
    lead: (lease, stopping) => candidate.lead(lease, stopping),
    onEvent: (event) => candidate.report(event),
  });
  const observing = new AbortController();
  void candidate.follow(election, observing.signal);
  election.start();
  const code = await candidate.done;
  observing.abort();
  // If processes of the command still run, the lease must not be released: it has to expire.
  if (!candidate.stuck) await tenure.close({ drainMs: timing.killAfterMs });
  return code;
};

/** Parses JSON, otherwise takes the text as it is, so that an address need not be quoted twice. */
function parseValue(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function parseRank(text = "0"): number {
  const rank = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (rank <= RANK_MAX) return rank;
  throw new UsageError(
    `--rank must be a whole number from 0 (leads first) to ${RANK_MAX}, got ${JSON.stringify(text)}.`,
  );
}

interface CandidateParts {
  readonly name: string;
  readonly command: readonly string[];
  readonly relay: SignalRelay;
  readonly output: Output;
  readonly timing: RunTiming;
  readonly hidesStore: boolean;
}

class Candidate {
  /** Resolves with the exit code when the candidate is finished. */
  readonly done: Promise<number>;
  stuck = false;
  readonly #parts: CandidateParts;
  #finish: (code: number) => void = () => undefined;

  constructor(parts: CandidateParts) {
    this.#parts = parts;
    this.done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    const { relay } = parts;
    relay.ended.addEventListener("abort", () => {
      // A running command receives the signal and decides; the candidate ends when it exits.
      if (!relay.hasTarget) this.#finish(relay.exitCode);
    });
  }

  async lead(lease: Lease, stopping: AbortSignal): Promise<void> {
    const { command, relay, timing, hidesStore } = this.#parts;
    if (command.length === 0) {
      if (!stopping.aborted) await once(stopping, "abort");
      return;
    }
    const { clock } = systemParts();
    const { killAfterMs } = timing;
    const how = { command, clock, killAfterMs, relay, hidesStore };
    const end = await supervise({ ...how, lease, stopping });
    this.stuck = end.stuck;
    if (end.stuck) return this.#finish(EXIT.lost);
    if (end.lost === undefined) return this.#finish(end.exitCode ?? EXIT.failed);
    if (relay.endedBy !== undefined) this.#finish(relay.exitCode);
  }

  /**
   * Prints every leader until the signal aborts. If the store cannot be watched, it reports the
   * error and retries: that is no reason to stop leading.
   */
  async follow(election: Election, signal: AbortSignal): Promise<void> {
    const { output, name } = this.#parts;
    const { clock } = systemParts();
    while (!signal.aborted) {
      try {
        for await (const leader of election.observe({ signal })) this.#reportLeader(leader);
      } catch (error) {
        if (signal.aborted || isTenureError(error, "CLOSED")) return;
        const message = toMessage(error);
        const facts = { event: "blind", name, message };
        output.note(`cannot observe the leader, retrying: ${message}`, facts);
      }
      await pause(clock, FOLLOW_AGAIN_MS, signal).catch(() => undefined);
    }
  }

  report(event: ElectionEvent): void {
    const { output, name } = this.#parts;
    const facts = { event: event.type, name, ...event };
    if (event.type === "lost") output.note(`lost leadership: ${event.reason}.`, facts);
    if (event.type !== "campaignFailed" && event.type !== "leadFailed") return;
    const what = event.type === "leadFailed" ? "could not lead" : "cannot campaign, retrying";
    const error = toMessage(event.error);
    output.note(`${what}: ${error}`, { ...facts, error });
  }

  #reportLeader(leader: Leader | undefined): void {
    const { output, name, command } = this.#parts;
    const fact = { event: "leader", name, leader: leader ?? null };
    const value = leader?.value === undefined ? "" : `: ${JSON.stringify(leader.value)}`;
    const sentence =
      leader === undefined
        ? `${name} has no leader`
        : `${leader.holderId} leads ${name} in term ${leader.term}${value}`;
    // With a command, stdout belongs to the command.
    if (command.length > 0) output.note(`${sentence}.`, fact);
    else
      output.answer(
        () => sentence,
        () => fact,
      );
  }
}

function toMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
