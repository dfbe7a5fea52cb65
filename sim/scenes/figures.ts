// The numbers of a scene in words: one row for each number that matters in it, one value for each take.

import { durationText } from "./clock-text.ts";
import type { Numbers } from "./measure.ts";
import type { Played } from "./play.ts";
import type { Scene } from "./scene.ts";

export interface NumberRow {
  readonly name: string;
  readonly values: readonly { readonly text: string; readonly isHarm: boolean }[];
}

/** A gap of this length is one that somebody notices. */
const NOTICED_MS = 1_000;

export function numberRows({ scene, takes }: Played): NumberRow[] {
  return scene.shown.map((key) => ({
    name: nameOf(scene, key),
    values: takes.map(({ numbers }) => ({
      text: shownValue(key, numbers[key]),
      isHarm: isHarm(key, numbers[key]),
    })),
  }));
}

function nameOf({ rows, double }: Scene, key: keyof Numbers): string {
  const names: Readonly<Record<keyof Numbers, string>> = {
    holds: "times that somebody held",
    rows: `${rows} in all`,
    doubles: `${rows} ${double ?? "written twice"}`,
    staleAdmitted: "stale writes that got in",
    staleRefused: "stale writes refused",
    heldBack: "acts not begun, because check() said no",
    togetherMs: "two could act at once",
    gapMs: "nobody led for",
    lateMs: "the old holder could act past the store's expiry",
    toldMs: "the old holder was told, after the store's expiry",
  };
  return names[key];
}

function shownValue(key: keyof Numbers, value: number): string {
  if (!key.endsWith("Ms")) return String(value);
  if (key === "lateMs" && value < 0) return `no: it stopped ${durationText(-value)} before`;
  if (key === "toldMs" && value < 0) return `${durationText(-value)} before`;
  return durationText(value);
}

function isHarm(key: keyof Numbers, value: number): boolean {
  if (key === "gapMs") return value >= NOTICED_MS;
  return (key === "doubles" || key === "staleAdmitted") && value > 0;
}
