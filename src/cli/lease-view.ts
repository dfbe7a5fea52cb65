// A lease as it is shown: a row for people, an object for programs.

import type { LeaseView } from "../stores/contract.ts";

export const LEASE_HEAD = ["RESOURCE", "HOLDER", "TOKEN", "EXPIRES IN", "VALUE"] as const;

export function leaseRow({ resource, holder }: LeaseView): string[] {
  if (holder === undefined) return [resource, "-", "-", "-", ""];
  const value = holder.value === undefined ? "" : JSON.stringify(holder.value);
  return [resource, holder.holderId, String(holder.token), secondsLeft(holder.expiresInMs), value];
}

export function leaseObject({ resource, holder }: LeaseView): Record<string, unknown> {
  return { resource, held: holder !== undefined, ...holder };
}

export function secondsLeft(ms: number): string {
  return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
}
