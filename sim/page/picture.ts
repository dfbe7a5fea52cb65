// From a tale to what is to be drawn: lanes with bars, bands, lines and marks, all in the scene's own time. No pixels here.

import { durationText } from "../scenes/clock-text.ts";
import { type Grant, grantsOf, type Hold, holdsOf, mayActUntil } from "../scenes/holds.ts";
import type { PlayedTake } from "../scenes/play.ts";
import type { Scene } from "../scenes/scene.ts";
import type { Told } from "../scenes/tale.ts";

export interface Bar {
  readonly from: number;
  readonly to: number;
  readonly label: string;
  /** Which program's colour, by its place. */
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
  /** While it could act by its own rules. */
  readonly bars: readonly Bar[];
  /** It took itself for the holder, and its own rules kept it from acting. */
  readonly afterwards: readonly Bar[];
  readonly doubts: readonly { readonly from: number; readonly to: number }[];
  readonly renewals: readonly { readonly at: number; readonly isGood: boolean }[];
  readonly deadlines: readonly { readonly at: number; readonly text: string }[];
  readonly heldBack: readonly Mark[];
  /** When it asked the store for the lease. */
  readonly asks: readonly number[];
  readonly bands: readonly Label[];
  /** What happened, at an instant or for a while. */
  readonly notes: readonly Label[];
  readonly writes: readonly Mark[];
}

export type MarkKind = "admitted" | "harm" | "refused" | "heldBack";

export interface Mark {
  readonly at: number;
  readonly kind: MarkKind;
  /** Where it was long under way: since when. */
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
  /** Faults that hit everybody. */
  readonly network: readonly Label[];
  /** What went wrong, or did not. */
  readonly findings: readonly (Label & { readonly isHarm: boolean })[];
}

/** Under way for longer than any healthy message. */
const LONG_MS = 1_000;

/** Whoever holds so soon after asking need not be shown asking. */
const ANSWERED_MS = 100;

export function pictureOf(scene: Scene, take: PlayedTake): Picture {
  const { tale } = take;
  const { endsAt: to, machines, shownFrom: from = 0 } = scene;
  const holds = holdsOf(tale);
  const grants = grantsOf(tale, to);
  const holderOf = ({ token }: Grant): string =>
    holds.find((hold) => hold.token === token)?.who ?? "";
  return {
    from, to, startsAt: scene.startsAt, ledger: scene.ledger,
    lanes: machines.map((name, index) =>
      laneOf(
        { name, index, from, endsAt: to, isTenure: take.take.isTenure },
        tale.told.filter(({ who, at }) => who === name && at >= from),
        holds.filter(({ who }) => who === name),
      ),
    ),
    grants: grants.map((grant) => ({
      from: grant.from, to: grant.to, holder: machines.indexOf(holderOf(grant)),
      label: `${holderOf(grant)} \u00B7 ${grant.token}`,
      title: `The store: token ${grant.token} is held by ${holderOf(grant)} for ${durationText(grant.to - grant.from)} (${grant.end})`,
    })),
    expiries: grants.filter(({ end }) => end === "expired").map((grant) => grant.to),
    network: bandsOf(tale.told.filter(({ who }) => who === "network")),
    findings: findingsOf(scene, take, holds),
  };
}

interface LaneParts {
  readonly name: string;
  readonly index: number;
  readonly from: number;
  readonly endsAt: number;
  readonly isTenure: boolean;
}

function laneOf(parts: LaneParts, told: readonly Told[], holds: readonly Hold[]): Lane {
  const { name, index, endsAt } = parts;
  const barOf = (hold: Hold, from: number, to: number, label: string, title: string): Bar => ({
    from, to, label, holder: index, title: `${name}, token ${hold.token}: ${title}`,
  });
  return {
    name, index, bands: bandsOf(told),
    bars: holds.map((hold) => {
      const until = mayActUntil(hold, endsAt);
      const title = `could act for ${durationText(until - hold.from)}`;
      return barOf(hold, hold.from, until, `token ${hold.token}`, title);
    }),
    afterwards: holds.flatMap((hold) => {
      const [from, to] = [mayActUntil(hold, endsAt), hold.stopsAt ?? endsAt];
      if (to - from < 1) return [];
      return [barOf(hold, from, to, "", "past its deadline, not told yet; check() would refuse")];
    }),
    doubts: holds.flatMap(({ doubts }) =>
      doubts.map(({ from, to }) => ({ from, to: to ?? endsAt })),
    ),
    renewals: holds.flatMap(({ renewals }) => renewals).filter(({ at }) => at >= parts.from),
    deadlines: holds.flatMap((hold) => deadlineOf(hold, parts)),
    heldBack: told.flatMap(({ kind, at }) => (kind === "heldBack" ? [{ at, kind }] : [])),
    asks: told
      .flatMap((event) =>
        event.kind === "asked" && (event.what === "grant" || event.what === "openSession")
          ? [event.at]
          : [],
      )
      .filter((at) => !holds.some(({ from }) => at <= from && from - at < ANSWERED_MS)),
    notes: told.flatMap((event) =>
      event.kind === "says" && event.mark !== undefined ? [noteOf(event, event.mark)] : [],
    ),
    writes: told.flatMap((event) => (event.kind === "landed" ? [markOf(event)] : [])),
  };
}

/** The last that it counted on, unless it gave the lease back before, or has it still. */
function deadlineOf(
  hold: Hold,
  parts: LaneParts,
): { readonly at: number; readonly text: string }[] {
  const last = hold.deadlines.at(-1);
  if (last === undefined || hold.isPlanned || hold.stopsAt === undefined) return [];
  if (last.until > parts.endsAt) return [];
  return [{ at: last.until, text: parts.isTenure ? "safeUntil" : "own expiry" }];
}

function markOf(event: Extract<Told, { kind: "landed" }>): Mark {
  const { at, outcome, isStale } = event;
  const sentAt = at - event.sentAt > LONG_MS ? event.sentAt : undefined;
  if (outcome === "refused") return { at, sentAt, kind: "refused" };
  return { at, sentAt, kind: isStale ? "harm" : "admitted" };
}

function noteOf({ at, ms }: Extract<Told, { kind: "says" }>, mark: string): Label {
  if (ms === undefined) return { from: at, to: at, text: mark };
  return { from: at, to: at + ms, text: `${mark}, ${durationText(ms)}` };
}

function bandsOf(told: readonly Told[]): Label[] {
  return told.flatMap((event) =>
    event.kind === "band"
      ? [
          {
            from: event.at, to: event.until,
            text: `${event.label}, ${durationText(event.until - event.at)}`,
          },
        ]
      : [],
  );
}

function findingsOf(scene: Scene, take: PlayedTake, holds: readonly Hold[]): Picture["findings"] {
  const gap = scene.shown.includes("gapMs") ? gapsOf(take) : [];
  return [...gap, ...overlapsOf(holds, scene.endsAt, take.numbers.staleAdmitted > 0)];
}

function gapsOf({ tale, numbers }: PlayedTake): Picture["findings"] {
  const writes = tale.told.filter((event) => event.kind === "landed");
  return writes.flatMap((write, index) => {
    const before = writes[index - 1];
    if (before === undefined || write.at - before.at !== numbers.gapMs) return [];
    const text = `nobody leads for ${durationText(numbers.gapMs)}`;
    return [{ from: before.at, to: write.at, text, isHarm: numbers.gapMs >= 1_000 }];
  });
}

function overlapsOf(holds: readonly Hold[], endsAt: number, isHarm: boolean): Picture["findings"] {
  return holds.flatMap((one, index) =>
    holds.slice(index + 1).flatMap((other) => {
      const from = Math.max(one.from, other.from);
      const to = Math.min(mayActUntil(one, endsAt), mayActUntil(other, endsAt));
      if (one.who === other.who || to - from < 1) return [];
      const harm = isHarm ? "" : ", and the guard sees to it";
      return [{ from, to, text: `two at once, ${durationText(to - from)}${harm}`, isHarm }];
    }),
  );
}
