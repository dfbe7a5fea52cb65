// Explains the signs of a figure. Only signs that occur on the page are listed.

import { line, MEANINGS, shape } from "./marks.ts";
import { element, escaped } from "./markup.ts";
import type { MarkKind, Picture } from "./picture.ts";

interface Sign {
  readonly text: string;
  readonly drawn: string;
  readonly occursIn: (picture: Picture) => boolean;
}

/** The hatching of a bar in doubt. The page contains it once. */
export const HATCH: string = element(
  "defs",
  {},
  element(
    "pattern",
    {
      id: "doubt",
      width: 7,
      height: 7,
      patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)",
    },
    element("rect", { class: "hatchPaper", width: 7, height: 7 }),
    line(0, 0, 0, 7, "hatch"),
  ),
);

const bar = (kind: string): string =>
  element("rect", { class: `${kind} h0`, x: 2, y: 4, width: 26, height: 12, rx: 3 });
const writes =
  (kind: MarkKind) =>
  ({ lanes }: Picture): boolean =>
    lanes.some((lane) => [...lane.writes, ...lane.heldBack].some((mark) => mark.kind === kind));
const mark = (kind: MarkKind): Sign => ({
  text: MEANINGS[kind],
  drawn: shape(kind, 15, 10),
  occursIn: writes(kind),
});
const some =
  (list: "afterwards" | "doubts" | "deadlines") =>
  ({ lanes }: Picture): boolean =>
    lanes.some((lane) => lane[list].length > 0);

const SIGNS: readonly Sign[] = [
  { text: "believes that it holds the lease and can act", drawn: bar("bar"), occursIn: () => true },
  {
    text: "past its deadline, not notified yet",
    drawn: bar("afterwards"),
    occursIn: some("afterwards"),
  },
  {
    text: "in doubt: a renewal failed, none has succeeded since",
    drawn: bar("bar") + element("rect", { class: "doubt", x: 2, y: 4, width: 26, height: 12 }),
    occursIn: some("doubts"),
  },
  {
    text: "requests the lease",
    drawn: element("g", { class: "ask" }, line(15, 6, 15, 14)),
    occursIn: () => true,
  },
  {
    text: "renewal confirmed",
    drawn: element("g", { class: "renewal" }, line(15, 5, 15, 15)),
    occursIn: () => true,
  },
  {
    text: "renewal failed or rejected",
    drawn: element("g", { class: "renewalFailed" }, line(11, 6, 19, 14), line(11, 14, 19, 6)),
    occursIn: ({ lanes }) => lanes.some((lane) => lane.renewals.some(({ isGood }) => !isGood)),
  },
  {
    text: "the holder's own deadline",
    drawn:
      line(18, 2, 18, 18, "deadline") +
      element("path", { class: "flag", d: "M18 1l-10 4.5l10 4.5Z" }),
    occursIn: some("deadlines"),
  },
  {
    text: "expired at the store",
    drawn: line(15, 0, 15, 20, "expiry"),
    occursIn: ({ expiries }) => expiries.length > 0,
  },
  {
    text: "fault",
    drawn: element("rect", { class: "fault", x: 2, y: 3, width: 26, height: 14 }),
    occursIn: () => true,
  },
  {
    text: "a write that was long under way",
    drawn: line(4, 3, 26, 17, "flight"),
    occursIn: ({ lanes }) =>
      lanes.some(({ writes: all }) => all.some(({ sentAt }) => sentAt !== undefined)),
  },
  mark("admitted"),
  mark("harm"),
  mark("refused"),
  mark("heldBack"),
];

export function renderLegend(pictures: readonly Picture[]): string {
  const items = SIGNS.filter(({ occursIn }) => pictures.some(occursIn)).map(({ text, drawn }) => {
    const size = { width: 30, height: 20, viewBox: "0 0 30 20", "aria-hidden": "true" };
    return element("li", {}, element("svg", size, drawn), element("span", {}, escaped(text)));
  });
  return element("ul", { class: "legend" }, ...items);
}
