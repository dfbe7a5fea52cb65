// Formats the numbers of a scene: one row for each number that matters in it, one value for each
// take.

import { durationText } from "./clock-text.ts";
import type { Numbers } from "./measure.ts";
import type { Played } from "./play.ts";
import type { Scene } from "./scene.ts";

export interface NumberRow {
  readonly name: string;
  readonly values: readonly { readonly text: string; readonly isHarm: boolean }[];
}

/** A gap of at least this length counts as harm. */
const NOTICED_MS = 1_000;

export function numberRows({ scene, takes }: Played): NumberRow[] {
  return scene.shown.map((key) => ({
    name: describe(scene, key),
    values: takes.map(({ numbers }) => ({
      text: formatValue(key, numbers[key]),
      isHarm: isHarm(key, numbers[key]),
    })),
  }));
}

function describe({ rows, double }: Scene, key: keyof Numbers): string {
  const names: Readonly<Record<keyof Numbers, string>> = {
    holds: "times that a program held the lease",
    rows: `${rows} in all`,
    doubles: `${rows} ${double ?? "written twice"}`,
    staleAdmitted: "stale writes admitted",
    staleRefused: "stale writes refused",
    heldBack: "acts not started, because check() said no",
    togetherMs: "two could act at once",
    gapMs: "time without a leader",
    lateMs: "the old holder could act after the store's expiry",
    noticedMs: "the old holder was notified after the store's expiry",
  };
  return names[key];
}

function formatValue(key: keyof Numbers, value: number): string {
  if (!key.endsWith("Ms")) return String(value);
  if (key === "lateMs" && value < 0) return `no, it stopped ${durationText(-value)} before`;
  if (key === "noticedMs" && value < 0) return `${durationText(-value)} before`;
  return durationText(value);
}

function isHarm(key: keyof Numbers, value: number): boolean {
  if (key === "gapMs") return value >= NOTICED_MS;
  return (key === "doubles" || key === "staleAdmitted") && value > 0;
}
