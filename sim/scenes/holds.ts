// Finds the holders in the record of a take, twice: as the programs believed, which may be wrong,
// and as the store decided.

import type { Tale, TaleEntry } from "./tale.ts";

/** A period in which a program believed that it held the lease. */
export interface Hold {
  readonly who: string;
  readonly token: bigint;
  readonly from: number;
  /** Whether it checks its deadline before every act. */
  readonly checksDeadline: boolean;
  /** When it learned that the lease had ended. Undefined if it still believes that it holds it. */
  stopsAt: number | undefined;
  isPlanned: boolean;
  /** Its own deadlines, each with the instant from which it relied on it. */
  readonly deadlines: { readonly at: number; readonly until: number }[];
  readonly renewals: { readonly at: number; readonly isGood: boolean }[];
  /** The periods after a failed renewal, up to the next successful one. */
  readonly doubts: { readonly from: number; to: number | undefined }[];
}

/** A grant of the store, and how long it lasted there. */
export interface Grant {
  readonly token: bigint;
  readonly session: string;
  readonly from: number;
  to: number;
  end: "expired" | "released" | "open";
}

export function findHolds(tale: Tale): Hold[] {
  const holds: Hold[] = [];
  const current = new Map<string, Hold>();
  for (const event of tale.entries) {
    if (event.kind === "holds") {
      const { who, token, at: from, checksDeadline } = event;
      const lists = { deadlines: [], renewals: [], doubts: [] };
      const hold = {
        who,
        token,
        from,
        checksDeadline,
        stopsAt: undefined,
        isPlanned: false,
        ...lists,
      };
      holds.push(hold);
      current.set(who, hold);
    }
    const hold = current.get(event.who);
    if (hold !== undefined && applyEntry(hold, event) === "ended") current.delete(event.who);
  }
  return holds;
}

function applyEntry(hold: Hold, event: TaleEntry): "ended" | undefined {
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
  return "ended";
}

/** Returns until when the program could act by its own rules. */
export function mayActUntil(hold: Hold, endsAt: number): number {
  const stop = hold.stopsAt ?? endsAt;
  if (!hold.checksDeadline) return stop;
  // A deadline counts until a later one replaces it, after a renewal or because a clock was set
  // back or stopped. If it had passed by then, the time in between counts as well: the estimate
  // should be too long rather than too short.
  for (const [index, { until }] of hold.deadlines.entries()) {
    const next = hold.deadlines[index + 1];
    const isReplaced = next !== undefined && next.at < stop && next.until > next.at;
    if (until < stop && !isReplaced) return until;
  }
  return stop;
}

export function findGrants(tale: Tale, endsAt: number): Grant[] {
  const grants: Grant[] = [];
  const lives = new Map<string, number>();
  for (const event of tale.entries) {
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
      if (grant !== undefined) Object.assign(grant, { to: event.at, end: "released" });
    }
  }
  for (const grant of grants) {
    if (grant.end === "open" && grant.to <= endsAt) grant.end = "expired";
    grant.to = Math.min(grant.to, endsAt);
  }
  return grants;
}
