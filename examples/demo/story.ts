// The steps of the demo. Three workers compete for the lease. Three times, the holder is stopped
// for longer than its ttl and then attempts a late write. Three times, the holder is shut down as
// in a deploy. Returns the measured times; verdict.ts evaluates them.

import type { Clock } from "../../src/async/clock.ts";
import { pause } from "../../src/async/waits.ts";
import { heldSince } from "../../src/cli/output/lease-view.ts";
import type { HolderView } from "../../src/stores/contract.ts";
import { TIMING } from "./messages.ts";
import type { Narrator } from "./narrator.ts";
import type { Team } from "./team.ts";

export const NAMES = ["ada", "ben", "cleo"] as const;

const PAUSES = 3;
const SHUTDOWNS = 3;
/** How long a holder writes before the next step. */
const ACT_MS = 1_200;
/** Generous limits: on a slow machine the demo takes longer but does not fail. */
const START_LIMIT_MS = 20_000;
const TAKEOVER_LIMIT_MS = 5 * TIMING.ttlMs;
const ANSWER_LIMIT_MS = 10_000;

export interface Measured {
  /** From each SIGSTOP to the grant of the successor. */
  readonly takeoversMs: readonly number[];
  /** From each SIGTERM to the grant of the successor. */
  readonly gapsMs: readonly number[];
}

export interface StoryParts {
  readonly team: Team;
  readonly narrator: Narrator;
  readonly clock: Clock;
  /** Reads the holder from the store, as any process can. */
  readHolder(): Promise<HolderView | undefined>;
}

export async function playStory(parts: StoryParts): Promise<Measured> {
  const { team, narrator, clock } = parts;
  narrator.heading("Three processes compete for one lease; only the holder appends to the ledger");
  await Promise.all(NAMES.map((name) => startWorker(team, name)));
  await team.until("granted", { since: 0, limitMs: START_LIMIT_MS });
  await pause(clock, ACT_MS);
  await printHolder(parts);

  narrator.heading("A holder is stopped between check() and its write, for longer than its ttl");
  const takeoversMs: number[] = [];
  for (let round = 1; round <= PAUSES; round += 1)
    takeoversMs.push(await pauseHolder(parts, round));

  narrator.heading("A deploy: each worker is shut down with SIGTERM and restarted");
  const gapsMs: number[] = [];
  for (let round = 1; round <= SHUTDOWNS; round += 1) gapsMs.push(await shutDownHolder(parts));

  await printHolder(parts);
  await team.endAll();
  narrator.print("", "All workers have exited.");
  return { takeoversMs, gapsMs };
}

/** Prints the holder, as `tenure show` does. */
async function printHolder({ narrator, clock, readHolder }: StoryParts): Promise<void> {
  const holder = await readHolder();
  if (holder?.heldForMs === undefined) return;
  narrator.print(
    holder.holderId,
    `has held the lease since ${heldSince(holder.heldForMs, clock.wallNow())}`,
  );
}

async function startWorker(team: Team, name: string): Promise<void> {
  const since = team.seen.length;
  team.start(name);
  await team.until("ready", { from: name, since, limitMs: START_LIMIT_MS });
}

/** Resolves with the time from the stop of the holder to the grant of its successor. */
async function pauseHolder({ team, narrator, clock }: StoryParts, round: number): Promise<number> {
  const victim = team.holder;
  const since = team.seen.length;
  team.order(victim, { type: "stall", note: `late write ${round}` });
  await team.until("checked", { from: victim, since, limitMs: ANSWER_LIMIT_MS });
  team.stop(victim);
  const stoppedAt = clock.now();
  narrator.print(victim, "is stopped (SIGSTOP) before it writes; its lease expires");
  narrator.measureFrom(stoppedAt, "after the stop");

  const successor = await team.until("granted", { since, limitMs: TAKEOVER_LIMIT_MS });
  // The late write comes after a row of the successor, so that the rows alone show whether it is
  // stale.
  await team.until("wrote", { from: successor.from, since, limitMs: ANSWER_LIMIT_MS });
  await pause(clock, ACT_MS);

  narrator.print(victim, "is resumed (SIGCONT) and continues, unaware of the pause");
  const resumed = team.seen.length;
  team.resume(victim);
  await team.until("checkedAgain", { from: victim, since: resumed, limitMs: ANSWER_LIMIT_MS });
  await pause(clock, ACT_MS);
  return successor.atMs - stoppedAt;
}

/** Resolves with the time from SIGTERM to the grant of the successor. */
async function shutDownHolder({ team, narrator, clock }: StoryParts): Promise<number> {
  const victim = team.holder;
  const since = team.seen.length;
  narrator.print(victim, "receives SIGTERM: finishes its work, releases, waits for its successor");
  const signalledAt = clock.now();
  narrator.measureFrom(signalledAt, "after the SIGTERM");
  const gone = team.shutDown(victim);
  const successor = await team.until("granted", { since, limitMs: TAKEOVER_LIMIT_MS });
  await gone;
  await startWorker(team, victim);
  await pause(clock, ACT_MS);
  return successor.atMs - signalledAt;
}
