// Marks for single acts. Each kind has its own shape, so that they can be distinguished without
// colour.

import { element } from "./markup.ts";
import type { Mark, MarkKind } from "./picture.ts";
import type { Scale } from "./scale.ts";

const RADIUS = 4;
/** Marks closer together than this are drawn as one. */
const TOUCHING = 7;

export const MEANINGS: Readonly<Record<MarkKind, string>> = {
  admitted: "write admitted",
  harm: "stale write admitted",
  refused: "stale write refused",
  heldBack: "act not started: check() said no",
};

/** Draws one mark, for figures and for the legend. */
export function shape(kind: MarkKind, x: number, y: number, title?: string): string {
  const parts = shapeParts(kind, x, y);
  return element("g", { class: `mark ${kind}` }, ...titled(title), ...parts);
}

function shapeParts(kind: MarkKind, x: number, y: number): string[] {
  const r = RADIUS;
  switch (kind) {
    case "admitted":
      return [element("circle", { cx: x, cy: y, r: r - 0.5 })];
    case "harm":
      return [
        element("path", {
          d: toPath([
            [x, y - r - 2.5],
            [x + r + 2, y + r],
            [x - r - 2, y + r],
          ]),
        }),
      ];
    case "refused":
      return [
        element("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
        line(x - r, y - r, x + r, y + r),
        line(x - r, y + r, x + r, y - r),
      ];
    case "heldBack":
      return [element("circle", { cx: x, cy: y, r: r - 0.5 }), line(x - r, y + r, x + r, y - r)];
  }
}

/** Draws all marks of one row. Marks that would overlap become one, with a count. */
export function markRow(marks: readonly Mark[], y: number, scale: Scale): string[] {
  const clusters: { kind: MarkKind; from: number; to: number; count: number }[] = [];
  for (const { at, kind } of marks) {
    const x = scale.x(at);
    const last = clusters.at(-1);
    if (last?.kind === kind && x - last.to < TOUCHING)
      Object.assign(last, { to: x, count: last.count + 1 });
    else clusters.push({ kind, from: x, to: x, count: 1 });
  }
  return clusters.map(({ kind, from, to, count }) => {
    if (count === 1) return shape(kind, from, y, MEANINGS[kind]);
    const title = `${count} \u00D7 ${MEANINGS[kind]}`;
    const text = element("text", { class: `count ${kind}`, x: to + 9, y: y + 4 }, `\u00D7${count}`);
    const stretch =
      to - from < TOUCHING
        ? []
        : [
            element("rect", {
              class: `stretch ${kind}`,
              x: from,
              y: y - 2.5,
              width: to - from,
              height: 5,
            }),
            shape(kind, to, y),
          ];
    return element("g", {}, ...titled(title), ...stretch, shape(kind, from, y), text);
  });
}

export function line(x1: number, y1: number, x2: number, y2: number, name?: string): string {
  return element("line", { class: name, x1, y1, x2, y2 });
}

export function titled(title: string | undefined): string[] {
  return title === undefined ? [] : [element("title", {}, title)];
}

function toPath(points: readonly (readonly [number, number])[]): string {
  const shown = points.map(([x, y]) => `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`);
  return `M${shown.join("L")}Z`;
}
