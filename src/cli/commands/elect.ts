// `tenure elect`: a candidate that prints who leads and, where a command is given, runs it while leading.

import { pause } from "../../async/waits.ts";
import { isTenureError } from "../../core/errors.ts";
import { checkResource } from "../../core/resource.ts";
import type { Election } from "../../election/election.ts";
import type { ElectionEvent } from "../../election/events.ts";
import type { Leader } from "../../election/observe.ts";
import { RANK_MAX } from "../../election/options.ts";
import type { Lease } from "../../holder/lease.ts";
import { signalNumber } from "../../runtime/process-end.ts";
import { systemParts } from "../../runtime/system.ts";
import { checkExecutable } from "../child/executable.ts";
import { supervise } from "../child/supervise.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { openSharedStore } from "../open-store.ts";
import { Relay } from "../relay.ts";
import { type RunTiming, runTiming } from "../timing-options.ts";
import { UsageError } from "../usage-error.ts";
import type { Voice } from "../voice.ts";

const FOLLOW_AGAIN_MS = 1_000;

export const electCommand: Command = async ({ positionals, command, options }, voice) => {
  const name = checkResource(positionals[0]);
  const timing = runTiming(options);
  const rank = parseRank(options.text("rank"));
  if (command.length > 0) checkExecutable(command);
  const relay = new Relay();
  const candidate = new Candidate({
    ...{ command, relay, voice, timing, name },
    hidesStore: options.has("hide-store"),
  });
  const { tenure } = await openSharedStore(options);
  const election = tenure.election(name, {
    ...timing.timing,
    rank,
    value: parseValue(options.text("value")),
    lead: (lease, stopping) => candidate.lead(lease, stopping),
    onEvent: (event) => candidate.tell(event),
  });
  const observing = new AbortController();
  void candidate.follow(election, observing.signal);
  election.start();
  const code = await candidate.done;
  observing.abort();
  // A lease under which something still runs is left to its ttl.
  if (!candidate.stuck) await tenure.close({ drainMs: timing.killAfterMs });
  return code;
};

/** JSON where it is JSON, text otherwise: an address need not be quoted twice. */
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
    `--rank needs a whole number from 0, which asks first, to ${RANK_MAX}, got ${JSON.stringify(text)}.`,
  );
}

interface CandidateParts {
  readonly name: string;
  readonly command: readonly string[];
  readonly relay: Relay;
  readonly voice: Voice;
  readonly timing: RunTiming;
  readonly hidesStore: boolean;
}

class Candidate {
  /** The exit code, when there is nothing more to do. */
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
      // A command that runs decides by itself; its end is ours.
      if (!relay.hasTarget) this.#finish(this.#signalCode());
    });
  }

  async lead(lease: Lease, stopping: AbortSignal): Promise<void> {
    const { command, relay, timing, hidesStore } = this.#parts;
    if (command.length === 0) return untilAborted(stopping);
    const { clock } = systemParts();
    const { killAfterMs } = timing;
    const how = { killAfterMs, relay, stopping, hidesStore };
    const end = await supervise({ command, lease, clock, ...how });
    this.stuck = end.stuck;
    if (end.stuck) return this.#finish(EXIT.lost);
    if (end.lost === undefined) return this.#finish(end.exitCode ?? EXIT.failed);
    if (relay.endedBy !== undefined) this.#finish(this.#signalCode());
  }

  /** Prints every leader until the signal aborts. That the store cannot be watched for now is no reason to stop leading. */
  async follow(election: Election, signal: AbortSignal): Promise<void> {
    const { voice, name } = this.#parts;
    const { clock } = systemParts();
    while (!signal.aborted) {
      try {
        for await (const leader of election.observe({ signal })) this.#tellLeader(leader);
      } catch (error) {
        if (signal.aborted || isTenureError(error, "CLOSED")) return;
        const message = error instanceof Error ? error.message : String(error);
        voice.note(`cannot see who leads for now: ${message}`, { event: "blind", name, message });
      }
      await pause(clock, FOLLOW_AGAIN_MS, signal).catch(() => undefined);
    }
  }

  tell(event: ElectionEvent): void {
    const { voice, name } = this.#parts;
    const facts = { event: event.type, name, ...event };
    if (event.type === "lost") voice.note(`lost leadership: ${event.reason}.`, facts);
    else if (event.type === "campaignFailed") {
      const { error } = event;
      const message = error instanceof Error ? error.message : String(error);
      voice.note(`cannot campaign for now: ${message}`, { ...facts, error: message });
    } else if (event.type === "leadFailed") {
      const { error } = event;
      const message = error instanceof Error ? error.message : String(error);
      voice.note(`could not lead: ${message}`, { ...facts, error: message });
    }
  }

  #tellLeader(leader: Leader | undefined): void {
    const { voice, name, command } = this.#parts;
    const fact =
      leader === undefined
        ? { event: "leader", name, leader: null }
        : { event: "leader", name, leader };
    const sentence =
      leader === undefined
        ? `nobody leads ${name}`
        : `${leader.holderId} leads ${name} in term ${leader.term}${shownValue(leader.value)}`;
    // Beside a command stdout is the command's.
    if (command.length > 0) voice.note(`${sentence}.`, fact);
    else
      voice.answer(
        () => sentence,
        () => fact,
      );
  }

  #signalCode(): number {
    return EXIT.signal + (signalNumber(this.#parts.relay.endedBy ?? "") ?? 0);
  }
}

function shownValue(value: unknown): string {
  return value === undefined ? "" : `: ${JSON.stringify(value)}`;
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
