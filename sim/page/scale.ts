// Maps instants to positions on the page, and chooses the labels of the time axis.

import { clockText } from "../scenes/clock-text.ts";
import type { Picture } from "./picture.ts";

export const NAMES_WIDTH = 100;
export const PLOT_WIDTH = 1_048;
const LEFT = 8;
const RIGHT = 40;
const STEPS_MS = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000];
/** The width of an axis label. */
const TICK_WIDTH = 84;

export interface Scale {
  x(at: number): number;
  ticks(): readonly { readonly at: number; readonly text: string }[];
}

export function createScale({ from, to, startsAt }: Picture): Scale {
  const perMs = (PLOT_WIDTH - LEFT - RIGHT) / (to - from);
  const x = (at: number): number => LEFT + (Math.min(Math.max(at, from), to) - from) * perMs;
  const step = STEPS_MS.find((ms) => ms * perMs >= TICK_WIDTH) ?? 60_000;
  return {
    x,
    ticks: () => {
      const origin = (startsAt ?? 0) * 1_000;
      const first = Math.ceil((from + origin) / step) * step - origin;
      const count = Math.floor((to - first) / step) + 1;
      return Array.from({ length: count }, (_, index) => {
        const at = first + index * step;
        return { at, text: clockText(at, startsAt, 0) };
      });
    },
  };
}

/** Estimates how wide a text is in the figure's small type. */
export function estimateWidth(text: string): number {
  return text.length * 6.1;
}
