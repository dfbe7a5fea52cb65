// Draws one ttl as a line of text: when renewals are sent, when the holder stops, when the lease
// expires.

import type { Timing } from "../../core/timing.ts";
import { formatDuration } from "../parsing/duration.ts";

const WIDTH = 64;

export function timeline({ ttlMs, renewEveryMs, marginMs }: Timing): string[] {
  const at = (ms: number): number => Math.round((ms / ttlMs) * WIDTH);
  const stopsAt = at(ttlMs - marginMs);
  const bar = [..."=".repeat(stopsAt), ..."-".repeat(WIDTH - stopsAt)];
  const marks: { readonly column: number; readonly text: string }[] = [
    { column: 0, text: "granted" },
    { column: at(renewEveryMs), text: "renewal" },
    { column: at(2 * renewEveryMs), text: "2nd renewal" },
    { column: stopsAt, text: `stops at ${formatDuration(ttlMs - marginMs)}` },
  ];
  for (const { column } of marks) bar[Math.min(column, WIDTH - 1)] = "|";
  return [
    "One ttl without a successful renewal (= holder may act, - holder has stopped)",
    `  ${bar.join("")}| ${formatDuration(ttlMs)}: the lease expires`,
    ...labels(marks).map((line) => `  ${line}`),
  ];
}

/**
 * Each label starts below its mark, on the first line where it does not overlap the previous label.
 */
function labels(marks: readonly { readonly column: number; readonly text: string }[]): string[] {
  const lines: string[] = [];
  for (const { column, text } of marks) {
    let index = lines.findIndex((line) => line.length === 0 || line.length + 1 < column);
    if (index === -1) index = lines.push("") - 1;
    lines[index] = `${(lines[index] ?? "").padEnd(column)}${text}`;
  }
  return lines;
}
