// Renders a take as lines of text: what the programs believed, what the store did, what reached the
// ledger. Many equal writes in a row become one line.

import { clockText, durationText } from "./clock-text.ts";
import { findGrants } from "./holds.ts";
import type { PlayedTake } from "./play.ts";
import type { Scene } from "./scene.ts";
import type { TaleEntry } from "./tale.ts";

export interface Line {
  readonly at: number;
  readonly who: string;
  readonly text: string;
  readonly isHarm: boolean;
  readonly isFault: boolean;
}

/** Writes of one kind that are further apart than this become two lines. */
const TOGETHER_MS = 3_000;

export function toLines(scene: Scene, { tale }: PlayedTake): Line[] {
  const runs = groupRuns(
    tale.entries.filter(({ kind }) => kind === "landed" || kind === "heldBack"),
  );
  const expiries = findGrants(tale, scene.endsAt).flatMap(({ end, to, token }) =>
    end === "expired" ? [plain(to, "store", `lets token ${token} expire`)] : [],
  );
  const lines = tale.entries.flatMap((event) => toLine(event));
  return [...lines, ...runs, ...expiries].sort((one, other) => one.at - other.at);
}

/** The lines in columns, with the clock of the story. */
export function toStory(scene: Scene, take: PlayedTake): string[] {
  const width = Math.max(...scene.machines.map((name) => name.length), "network".length);
  return toLines(scene, take).map(({ at, who, text }) => {
    const time = clockText(at, scene.startsAt, 3).padStart(10);
    return `${time}  ${who.padEnd(width)}  ${text}`;
  });
}

function toLine(event: TaleEntry): Line[] {
  const { at, who } = event;
  switch (event.kind) {
    case "storeGranted":
      return [plain(at, who, `grants token ${event.token}`)];
    case "storeFreed":
      return [plain(at, who, `receives the release of token ${event.token}`)];
    case "holds":
      return [plain(at, who, `holds the lease with token ${event.token}`)];
    case "stops":
      return [plain(at, who, event.why)];
    case "says":
      return [plain(at, who, event.text)];
    case "renewed":
      return event.outcome === "failed" ? [plain(at, who, "receives no answer to a renewal")] : [];
    case "band":
      return [
        {
          ...plain(at, who, `FAULT ${event.label} (${durationText(event.until - at)})`),
          isFault: true,
        },
      ];
    default:
      return [];
  }
}

function groupRuns(events: readonly TaleEntry[]): Line[] {
  const runs: { first: TaleEntry; last: TaleEntry; count: number }[] = [];
  for (const event of events) {
    const run = runs.findLast(({ first }) => first.who === event.who);
    const isSame =
      run !== undefined &&
      describeOutcome(run.first) === describeOutcome(event) &&
      event.at - run.last.at < TOGETHER_MS;
    if (isSame) Object.assign(run, { last: event, count: run.count + 1 });
    else runs.push({ first: event, last: event, count: 1 });
  }
  return runs.map(({ first, last, count }) => {
    const span = last.at - first.at < 1 ? "" : `, over ${durationText(last.at - first.at)}`;
    const times = count === 1 ? "" : `${count} times`;
    const what = first.kind === "heldBack" ? first.why : `writes: ${describeOutcome(first)}`;
    const text = times === "" ? what : `${what} (${times}${span})`;
    return { ...plain(first.at, first.who, text), isHarm: isHarm(first) };
  });
}

function describeOutcome(event: TaleEntry): string {
  if (event.kind === "heldBack") return event.why;
  if (event.kind !== "landed") return event.kind;
  if (event.outcome === "refused") return "refused, stale";
  const double = event.isDouble ? ", a second time" : "";
  return `admitted${event.isStale ? " although stale" : ""}${double}`;
}

function isHarm(event: TaleEntry): boolean {
  return event.kind === "landed" && event.outcome === "admitted" && event.isStale;
}

function plain(at: number, who: string, text: string): Line {
  return { at, who, text, isHarm: false, isFault: false };
}
