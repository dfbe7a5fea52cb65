// Turns the record of a take into what is drawn: lanes with bars, bands, lines and marks, all in
// the scene's own time. This file knows no pixels.

import { durationText } from "../scenes/clock-text.ts";
import { findGrants, findHolds, type Grant, type Hold, mayActUntil } from "../scenes/holds.ts";
import type { PlayedTake } from "../scenes/play.ts";
import type { Scene } from "../scenes/scene.ts";
import type { TaleEntry } from "../scenes/tale.ts";

export interface Bar {
  readonly from: number;
  readonly to: number;
  readonly label: string;
  /** The index of the program whose colour is used. */
  readonly holder: number;
  readonly title: string;
}

export interface Label {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

export interface Lane {
  readonly name: string;
  readonly index: number;
  /** The periods in which it could act by its own rules. */
  readonly bars: readonly Bar[];
  /**
   * The periods in which it believed that it held the lease, but its own rules kept it from acting.
   */
  readonly afterwards: readonly Bar[];
  readonly doubts: readonly { readonly from: number; readonly to: number }[];
  readonly renewals: readonly { readonly at: number; readonly isGood: boolean }[];
  readonly deadlines: readonly { readonly at: number; readonly text: string }[];
  readonly heldBack: readonly Mark[];
  /** When it requested the lease from the store. */
  readonly asks: readonly number[];
  readonly bands: readonly Label[];
  /** Events, at an instant or over a period. */
  readonly notes: readonly Label[];
  readonly writes: readonly Mark[];
}

export type MarkKind = "admitted" | "harm" | "refused" | "heldBack";

export interface Mark {
  readonly at: number;
  readonly kind: MarkKind;
  /** When the write was sent, if it was long under way. */
  readonly sentAt?: number | undefined;
}

export interface Picture {
  readonly from: number;
  readonly to: number;
  readonly startsAt: number | undefined;
  readonly lanes: readonly Lane[];
  readonly ledger: string;
  readonly grants: readonly Bar[];
  readonly expiries: readonly number[];
  /** Faults that affect every program. */
  readonly network: readonly Label[];
  /** The harm that was done or prevented. */
  readonly findings: readonly (Label & { readonly isHarm: boolean })[];
}

/** Longer than any healthy message is under way. */
const LONG_MS = 1_000;

/** A request that is granted within this time is not drawn. */
const ANSWERED_MS = 100;

export function toPicture(scene: Scene, take: PlayedTake): Picture {
  const { tale } = take;
  const { endsAt: to, machines, shownFrom: from = 0 } = scene;
  const holds = findHolds(tale);
  const grants = findGrants(tale, to);
  const findHolder = ({ token }: Grant): string =>
    holds.find((hold) => hold.token === token)?.who ?? "";
  return {
    from,
    to,
    startsAt: scene.startsAt,
    ledger: scene.ledger,
    lanes: machines.map((name, index) =>
      toLane(
        { name, index, from, endsAt: to, isTenure: take.take.isTenure },
        tale.entries.filter(({ who, at }) => who === name && at >= from),
        holds.filter(({ who }) => who === name),
      ),
    ),
    grants: grants.map((grant) => ({
      from: grant.from,
      to: grant.to,
      holder: machines.indexOf(findHolder(grant)),
      label: `${findHolder(grant)} \u00B7 ${grant.token}`,
      title: `The store: token ${grant.token} is held by ${findHolder(grant)} for ${durationText(grant.to - grant.from)} (${grant.end})`,
    })),
    expiries: grants.filter(({ end }) => end === "expired").map((grant) => grant.to),
    network: toBands(tale.entries.filter(({ who }) => who === "network")),
    findings: findFindings(scene, take, holds),
  };
}

interface LaneParts {
  readonly name: string;
  readonly index: number;
  readonly from: number;
  readonly endsAt: number;
  readonly isTenure: boolean;
}

function toLane(parts: LaneParts, entries: readonly TaleEntry[], holds: readonly Hold[]): Lane {
  const { name, index, endsAt } = parts;
  const toBar = (hold: Hold, from: number, to: number, label: string, title: string): Bar => ({
    from,
    to,
    label,
    holder: index,
    title: `${name}, token ${hold.token}: ${title}`,
  });
  return {
    name,
    index,
    bands: toBands(entries),
    bars: holds.map((hold) => {
      const until = mayActUntil(hold, endsAt);
      const title = `could act for ${durationText(until - hold.from)}`;
      return toBar(hold, hold.from, until, `token ${hold.token}`, title);
    }),
    afterwards: holds.flatMap((hold) => {
      const [from, to] = [mayActUntil(hold, endsAt), hold.stopsAt ?? endsAt];
      if (to - from < 1) return [];
      return [
        toBar(hold, from, to, "", "past its deadline, not notified yet; check() would throw"),
      ];
    }),
    doubts: holds.flatMap(({ doubts }) =>
      doubts.map(({ from, to }) => ({ from, to: to ?? endsAt })),
    ),
    renewals: holds.flatMap(({ renewals }) => renewals).filter(({ at }) => at >= parts.from),
    deadlines: holds.flatMap((hold) => findDeadline(hold, parts)),
    heldBack: entries.flatMap(({ kind, at }) => (kind === "heldBack" ? [{ at, kind }] : [])),
    asks: entries
      .flatMap((event) =>
        event.kind === "asked" && (event.what === "grant" || event.what === "openSession")
          ? [event.at]
          : [],
      )
      .filter((at) => !holds.some(({ from }) => at <= from && from - at < ANSWERED_MS)),
    notes: entries.flatMap((event) =>
      event.kind === "says" && event.mark !== undefined ? [toNote(event, event.mark)] : [],
    ),
    writes: entries.flatMap((event) => (event.kind === "landed" ? [toMark(event)] : [])),
  };
}

/** The last deadline it relied on. None if it released the lease before that, or still holds it. */
function findDeadline(
  hold: Hold,
  parts: LaneParts,
): { readonly at: number; readonly text: string }[] {
  const last = hold.deadlines.at(-1);
  if (last === undefined || hold.isPlanned || hold.stopsAt === undefined) return [];
  if (last.until > parts.endsAt) return [];
  return [{ at: last.until, text: parts.isTenure ? "safeUntil" : "own expiry" }];
}

function toMark(event: Extract<TaleEntry, { kind: "landed" }>): Mark {
  const { at, outcome, isStale } = event;
  const sentAt = at - event.sentAt > LONG_MS ? event.sentAt : undefined;
  if (outcome === "refused") return { at, sentAt, kind: "refused" };
  return { at, sentAt, kind: isStale ? "harm" : "admitted" };
}

function toNote({ at, ms }: Extract<TaleEntry, { kind: "says" }>, mark: string): Label {
  if (ms === undefined) return { from: at, to: at, text: mark };
  return { from: at, to: at + ms, text: `${mark}, ${durationText(ms)}` };
}

function toBands(entries: readonly TaleEntry[]): Label[] {
  return entries.flatMap((event) =>
    event.kind === "band"
      ? [
          {
            from: event.at,
            to: event.until,
            text: `${event.label}, ${durationText(event.until - event.at)}`,
          },
        ]
      : [],
  );
}

function findFindings(scene: Scene, take: PlayedTake, holds: readonly Hold[]): Picture["findings"] {
  const gap = scene.shown.includes("gapMs") ? findGaps(take) : [];
  return [...gap, ...findOverlaps(holds, scene.endsAt, take.numbers.staleAdmitted > 0)];
}

function findGaps({ tale, numbers }: PlayedTake): Picture["findings"] {
  const writes = tale.entries.filter((event) => event.kind === "landed");
  return writes.flatMap((write, index) => {
    const before = writes[index - 1];
    if (before === undefined || write.at - before.at !== numbers.gapMs) return [];
    const text = `no leader for ${durationText(numbers.gapMs)}`;
    return [{ from: before.at, to: write.at, text, isHarm: numbers.gapMs >= 1_000 }];
  });
}

function findOverlaps(
  holds: readonly Hold[],
  endsAt: number,
  isHarm: boolean,
): Picture["findings"] {
  return holds.flatMap((one, index) =>
    holds.slice(index + 1).flatMap((other) => {
      const from = Math.max(one.from, other.from);
      const to = Math.min(mayActUntil(one, endsAt), mayActUntil(other, endsAt));
      if (one.who === other.who || to - from < 1) return [];
      const harm = isHarm ? "" : ", harmless behind the guard";
      return [{ from, to, text: `two at once, ${durationText(to - from)}${harm}`, isHarm }];
    }),
  );
}
