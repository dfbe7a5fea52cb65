// Formats a lease: as a table row for people, as an object for JSON.

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

/** A dash if the store does not know how long the lease has been held. */
export function heldFor(heldForMs: number | undefined): string {
  return heldForMs === undefined ? "-" : formatElapsed(heldForMs);
}

/** Formats the local time of the grant and the time since then: "2026-11-17 21:50:03 (3m 12s)". */
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
