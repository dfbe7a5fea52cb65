// Computes the numbers of one take. All of them are counted from its record.

import { findGrants, findHolds, type Hold, mayActUntil } from "./holds.ts";
import type { Tale } from "./tale.ts";

export interface Numbers {
  /** How many times a program believed that it held the lease, one after another or at once. */
  readonly holds: number;
  /** How long two programs could act at once, each by its own rules. */
  readonly togetherMs: number;
  /** From the last write of a holder to the first of the next. */
  readonly gapMs: number;
  /** Rows that were written. */
  readonly rows: number;
  /** Rows that a second holder wrote again. */
  readonly doubles: number;
  readonly staleAdmitted: number;
  readonly staleRefused: number;
  /** Acts that were not started because the program checked first. */
  readonly heldBack: number;
  /**
   * How long after the store's expiry the old holder could still act by its own rules. Negative if
   * it stopped before.
   */
  readonly lateMs: number;
  /** How long after the store's expiry the old holder learned of it. Negative if it knew before. */
  readonly noticedMs: number;
}

export function measure(tale: Tale, endsAt: number): Numbers {
  const landed = tale.entries.filter((event) => event.kind === "landed");
  const admitted = landed.filter(({ outcome }) => outcome === "admitted");
  const stale = landed.filter(({ isStale }) => isStale);
  return {
    holds: findHolds(tale).length,
    togetherMs: togetherMs(tale, endsAt),
    gapMs: gapMs(admitted),
    rows: new Set(admitted.map(({ row }) => row)).size,
    doubles: new Set(admitted.filter(({ isDouble }) => isDouble).map(({ row }) => row)).size,
    staleAdmitted: stale.filter(({ outcome }) => outcome === "admitted").length,
    staleRefused: stale.filter(({ outcome }) => outcome === "refused").length,
    heldBack: tale.entries.filter(({ kind }) => kind === "heldBack").length,
    lateMs: afterExpiry(tale, endsAt, (hold) => mayActUntil(hold, endsAt)),
    noticedMs: afterExpiry(tale, endsAt, (hold) => hold.stopsAt ?? endsAt),
  };
}

function togetherMs(tale: Tale, endsAt: number): number {
  const edges = findHolds(tale).flatMap((hold) => [
    { at: hold.from, step: 1 },
    { at: mayActUntil(hold, endsAt), step: -1 },
  ]);
  edges.sort((one, other) => one.at - other.at || one.step - other.step);
  let [holders, since, together] = [0, 0, 0];
  for (const { at, step } of edges) {
    if (holders > 1) together += at - since;
    holders += step;
    since = at;
  }
  return together;
}

/** Returns the longest gap, if there were several changes. */
function gapMs(admitted: readonly { readonly at: number; readonly who: string }[]): number {
  const gaps = admitted.map((write, index) => {
    const before = admitted[index - 1];
    return before === undefined || before.who === write.who ? 0 : write.at - before.at;
  });
  return Math.max(0, ...gaps);
}

/** Returns the worst value over all grants that were not released. */
function afterExpiry(tale: Tale, endsAt: number, end: (hold: Hold) => number): number {
  const holds = findHolds(tale);
  const late = findGrants(tale, endsAt).flatMap((grant) => {
    const hold = holds.find(({ token }) => token === grant.token);
    if (grant.end !== "expired" || hold === undefined) return [];
    return [end(hold) - grant.to];
  });
  return late.length === 0 ? 0 : Math.max(...late);
}
