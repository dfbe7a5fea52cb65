// A lease as it is shown: a row for people, an object for programs.

import type { LeaseView } from "../../stores/contract.ts";
import { formatElapsed } from "../parsing/duration.ts";

export const LEASE_HEAD = [
  "RESOURCE",
  "HOLDER",
  "TOKEN",
  "HELD FOR",
  "EXPIRES IN",
  "VALUE",
] as const;

export function leaseRow({ resource, holder }: LeaseView): string[] {
  if (holder === undefined) return [resource, "-", "-", "-", "-", ""];
  const value = holder.value === undefined ? "" : JSON.stringify(holder.value);
  const { holderId, token, heldForMs, expiresInMs } = holder;
  return [resource, holderId, String(token), heldFor(heldForMs), secondsLeft(expiresInMs), value];
}

export function leaseObject({ resource, holder }: LeaseView): Record<string, unknown> {
  return { resource, held: holder !== undefined, ...holder };
}

/** The store may not know it. */
export function heldFor(heldForMs: number | undefined): string {
  return heldForMs === undefined ? "-" : formatElapsed(heldForMs);
}

/** "2026-11-17 21:50:03 (3m 12s)": when the lease was granted, in local time, and how long ago that was. */
export function heldSince(heldForMs: number, wallMs: number): string {
  const at = new Date(wallMs - heldForMs);
  const two = (part: number): string => String(part).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  return `${day} ${time} (${formatElapsed(heldForMs)})`;
}

export function secondsLeft(ms: number): string {
  return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
}
