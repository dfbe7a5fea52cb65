// Who held, told twice: by the programs, who may be wrong, and by the store.

import type { Tale, Told } from "./tale.ts";

/** A stretch during which a program took itself for the holder. */
export interface Hold {
  readonly who: string;
  readonly token: bigint;
  readonly from: number;
  /** It looks at its deadline before every act. */
  readonly looks: boolean;
  /** When it knew that it was over; undefined: it still believes it. */
  stopsAt: number | undefined;
  isPlanned: boolean;
  /** Its own deadline, each with the instant from which on it counted on it. */
  readonly deadlines: { readonly at: number; readonly until: number }[];
  readonly renewals: { readonly at: number; readonly isGood: boolean }[];
  /** A renewal failed, and none has worked since. */
  readonly doubts: { readonly from: number; to: number | undefined }[];
}

/** What the store granted, and how long it lasted there. */
export interface Grant {
  readonly token: bigint;
  readonly session: string;
  readonly from: number;
  to: number;
  end: "expired" | "given back" | "open";
}

export function holdsOf(tale: Tale): Hold[] {
  const holds: Hold[] = [];
  const current = new Map<string, Hold>();
  for (const event of tale.told) {
    if (event.kind === "holds") {
      const { who, token, at: from, looks } = event;
      const lists = { deadlines: [], renewals: [], doubts: [] };
      const hold = { who, token, from, looks, stopsAt: undefined, isPlanned: false, ...lists };
      holds.push(hold);
      current.set(who, hold);
    }
    const hold = current.get(event.who);
    if (hold !== undefined && take(hold, event) === "over") current.delete(event.who);
  }
  return holds;
}

function take(hold: Hold, event: Told): "over" | undefined {
  const { at } = event;
  const doubt = hold.doubts.findLast(({ to }) => to === undefined);
  if (event.kind === "deadline") hold.deadlines.push({ at, until: event.until });
  if (event.kind === "renewed") {
    const isGood = event.outcome === "renewed";
    hold.renewals.push({ at, isGood });
    if (isGood && doubt !== undefined) doubt.to = at;
    if (event.outcome === "failed" && doubt === undefined)
      hold.doubts.push({ from: at, to: undefined });
  }
  if (event.kind !== "stops" && event.kind !== "crashed") return undefined;
  if (doubt !== undefined) doubt.to = at;
  hold.stopsAt = at;
  hold.isPlanned = event.kind === "stops" && event.isPlanned;
  return "over";
}

/** Until when it might act, by its own rules. */
export function mayActUntil(hold: Hold, endsAt: number): number {
  const stop = hold.stopsAt ?? endsAt;
  if (!hold.looks) return stop;
  // A deadline counts until a later one replaces it: by a renewal, or because a clock was set back or stood still. If one had
  // passed by then, the time between counts as well: rather too much than too little.
  for (const [index, { until }] of hold.deadlines.entries()) {
    const next = hold.deadlines[index + 1];
    const isReplaced = next !== undefined && next.at < stop && next.until > next.at;
    if (until < stop && !isReplaced) return until;
  }
  return stop;
}

export function grantsOf(tale: Tale, endsAt: number): Grant[] {
  const grants: Grant[] = [];
  const lives = new Map<string, number>();
  for (const event of tale.told) {
    if (event.kind === "storeKept") {
      lives.set(event.session, event.until);
      for (const grant of grants)
        if (grant.session === event.session && grant.end === "open" && grant.to > event.at)
          grant.to = event.until;
    }
    if (event.kind === "storeGranted") {
      const { token, session, at: from } = event;
      grants.push({ token, session, from, to: lives.get(session) ?? endsAt, end: "open" });
    }
    if (event.kind === "storeFreed") {
      const grant = grants.find(({ token }) => token === event.token);
      if (grant !== undefined) Object.assign(grant, { to: event.at, end: "given back" });
    }
  }
  for (const grant of grants) {
    if (grant.end === "open" && grant.to <= endsAt) grant.end = "expired";
    grant.to = Math.min(grant.to, endsAt);
  }
  return grants;
}
