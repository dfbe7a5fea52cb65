// The play: three workers compete; three times the holder is stopped past its ttl and its late write is tried; three
// times the holder is shut down as in a deploy. Gives back what it measured; whether that is good is for verdict.ts.

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
/** How long a holder is left to write before something happens to it. */
const ACT_MS = 1_200;
/** Generous: a slow machine makes the demo slow, not wrong. */
const START_LIMIT_MS = 20_000;
const TAKEOVER_LIMIT_MS = 5 * TIMING.ttlMs;
const ANSWER_LIMIT_MS = 10_000;

export interface Measured {
  /** From SIGSTOP to the successor's grant, each. */
  readonly takeoversMs: readonly number[];
  /** From SIGTERM to the successor's grant, each. */
  readonly gapsMs: readonly number[];
}

export interface StoryParts {
  readonly team: Team;
  readonly narrator: Narrator;
  readonly clock: Clock;
  /** Who holds the lease, as any process that can open the store may ask. */
  readHolder(): Promise<HolderView | undefined>;
}

export async function tellStory(parts: StoryParts): Promise<Measured> {
  const { team, narrator, clock } = parts;
  narrator.heading("Three processes compete for one lease; its holder alone appends to the ledger");
  await Promise.all(NAMES.map((name) => startWorker(team, name)));
  await team.until("granted", { since: 0, limitMs: START_LIMIT_MS });
  await pause(clock, ACT_MS);
  await tellHolder(parts);

  narrator.heading(
    "A holder is stopped between check() and its write, for longer than its lease lasts",
  );
  const takeoversMs: number[] = [];
  for (let round = 1; round <= PAUSES; round += 1)
    takeoversMs.push(await pauseHolder(parts, round));

  narrator.heading("A deploy: each worker in turn is shut down with SIGTERM and started again");
  const gapsMs: number[] = [];
  for (let round = 1; round <= SHUTDOWNS; round += 1) gapsMs.push(await shutDownHolder(parts));

  await tellHolder(parts);
  await team.dismiss();
  narrator.say("", "All workers have left.");
  return { takeoversMs, gapsMs };
}

/** What a reader sees of the holder: `tenure show` says the same. */
async function tellHolder({ narrator, clock, readHolder }: StoryParts): Promise<void> {
  const holder = await readHolder();
  if (holder?.heldForMs === undefined) return;
  narrator.say(
    holder.holderId,
    `has held the lease since ${heldSince(holder.heldForMs, clock.wallNow())}`,
  );
}

async function startWorker(team: Team, name: string): Promise<void> {
  const since = team.seen.length;
  team.start(name);
  await team.until("ready", { from: name, since, limitMs: START_LIMIT_MS });
}

/** Answers how long the successor had to wait, from the stop to its grant. */
async function pauseHolder({ team, narrator, clock }: StoryParts, round: number): Promise<number> {
  const victim = team.holder;
  const since = team.seen.length;
  team.order(victim, { type: "stall", note: `late write ${round}` });
  await team.until("armed", { from: victim, since, limitMs: ANSWER_LIMIT_MS });
  team.stop(victim);
  const stoppedAt = clock.now();
  narrator.say(victim, "is stopped (SIGSTOP) before it has written; its lease runs out unrenewed");
  narrator.measureFrom(stoppedAt, "after the stop");

  const successor = await team.until("granted", { since, limitMs: TAKEOVER_LIMIT_MS });
  // The late write is tried only once the ledger has a row of the successor: the rows alone then tell the truth.
  await team.until("wrote", { from: successor.from, since, limitMs: ANSWER_LIMIT_MS });
  await pause(clock, ACT_MS);

  narrator.say(victim, "is resumed (SIGCONT) and goes on where it stood, knowing nothing of this");
  const resumed = team.seen.length;
  team.resume(victim);
  await team.until("checked", { from: victim, since: resumed, limitMs: ANSWER_LIMIT_MS });
  await pause(clock, ACT_MS);
  return successor.atMs - stoppedAt;
}

/** Answers the gap, with all that is in it: the signal, the end of the work, the release, the successor's grant. */
async function shutDownHolder({ team, narrator, clock }: StoryParts): Promise<number> {
  const victim = team.holder;
  const since = team.seen.length;
  narrator.say(victim, "gets SIGTERM: finishes its work, releases, waits for its successor");
  const toldAt = clock.now();
  narrator.measureFrom(toldAt, "after the SIGTERM");
  const gone = team.shutDown(victim);
  const successor = await team.until("granted", { since, limitMs: TAKEOVER_LIMIT_MS });
  await gone;
  await startWorker(team, victim);
  await pause(clock, ACT_MS);
  return successor.atMs - toldAt;
}
