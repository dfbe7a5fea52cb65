// Draws a picture as SVG: a lane for each program, one for the store, one for what reached the ledger, the time below. Two
// drawings, so that the names can stay in sight while the rest is scrolled: the names, and the plot.

import { element, escape } from "./markup.ts";
import { line, markRow, titled } from "./marks.ts";
import type { Bar, Label, Lane, Picture } from "./picture.ts";
import { NAMES_WIDTH, PLOT_WIDTH, type Scale, scaleOf, widthOf } from "./scale.ts";

const HEAD = 44;
const LANE = 92;
const STORE = 52;
const ROW = 22;
const AXIS = 30;
/** Inside a lane. */
const BAR_TOP = 24;
const BAR_HEIGHT = 22;
const TICKS_TOP = BAR_TOP + BAR_HEIGHT + 3;

export interface Drawing {
  readonly height: number;
  /** Markup without an <svg> around it. */
  readonly names: string;
  readonly plot: string;
}

export function drawingOf(picture: Picture): Drawing {
  const scale = scaleOf(picture);
  const { lanes } = picture;
  const storeTop = HEAD + lanes.length * LANE;
  const ledgerTop = storeTop + STORE;
  const bottom = ledgerTop + lanes.length * ROW + 12;
  const plot = [
    ...backgrounds(picture, storeTop, ledgerTop, bottom),
    ...axis(scale, bottom),
    ...picture.network.flatMap((label) => networkBand(label, scale, bottom)),
    ...lanes.flatMap((lane, index) => drawLane(lane, HEAD + index * LANE, scale)),
    ...drawStore(picture, storeTop, scale, bottom),
    ...lanes.flatMap(({ writes }, index) =>
      markRow(writes, ledgerTop + 16 + index * ROW, scale),
    ),
    ...picture.findings.flatMap((finding) => drawFinding(finding, scale)),
  ];
  return {
    height: bottom + AXIS,
    names: names(picture, storeTop, ledgerTop).join(""),
    plot: plot.join("\n"),
  };
}

function names({ lanes, ledger }: Picture, storeTop: number, ledgerTop: number): string[] {
  const name = (y: number, text: string, kind = "name"): string =>
    element("text", { class: kind, x: 8, y }, escape(text));
  return [
    ...lanes.flatMap((lane, index) => [
      element("rect", {
        ...{ class: `h${lane.index}`, x: 0, y: HEAD + index * LANE + BAR_TOP, width: 4 },
        height: BAR_HEIGHT,
      }),
      name(HEAD + index * LANE + BAR_TOP + 16, lane.name),
    ]),
    name(storeTop + 26, "store"),
    name(ledgerTop + 20, ledger),
  ];
}

function backgrounds(picture: Picture, storeTop: number, ledgerTop: number, bottom: number): string[] {
  const stripe = (y: number, height: number, index: number): string =>
    element("rect", { class: `lane${index % 2}`, x: 0, y, width: PLOT_WIDTH, height });
  const { lanes } = picture;
  return [
    ...lanes.map((_, index) => stripe(HEAD + index * LANE, LANE, index)),
    stripe(storeTop, STORE, lanes.length),
    stripe(ledgerTop, bottom - ledgerTop, lanes.length + 1),
    ...lanes.map((lane, index) =>
      element(
        "text",
        { class: "small", x: PLOT_WIDTH - 4, y: ledgerTop + 20 + index * ROW, "text-anchor": "end" },
        escape(lane.name),
      ),
    ),
  ];
}

function axis(scale: Scale, bottom: number): string[] {
  return scale.ticks().flatMap(({ at, text }) => {
    const x = scale.x(at);
    return [
      line(x, HEAD, x, bottom, "grid"),
      element("text", { class: "time", x, y: bottom + 18 }, escape(text)),
    ];
  });
}

function networkBand(label: Label, scale: Scale, bottom: number): string[] {
  const [x, to] = [scale.x(label.from), scale.x(label.to)];
  return [
    element("rect", { class: "fault", x, y: HEAD - 4, width: to - x, height: bottom - HEAD + 4 }),
    element("text", { class: "faultText", x: to + 4, y: HEAD + 10 }, escape(label.text)),
  ];
}

function drawLane(lane: Lane, top: number, scale: Scale): string[] {
  const bar = (kind: string) => (each: Bar): string => drawBar(each, kind, top + BAR_TOP, scale);
  return [
    ...lane.bands.map(({ from, to }) => {
      const x = scale.x(from);
      const size = { width: scale.x(to) - x, height: LANE - 8 };
      return element("rect", { class: "fault", x, y: top + 4, ...size });
    }),
    ...lane.afterwards.map(bar("afterwards")),
    ...lane.bars.map(bar("bar")),
    ...lane.doubts.map(({ from, to }) => {
      const x = scale.x(from);
      const size = { width: Math.max(3, scale.x(to) - x), height: BAR_HEIGHT };
      const title = titled("in doubt: a renewal failed, and none has worked since");
      return element("rect", { class: "doubt", x, y: top + BAR_TOP, ...size }, ...title);
    }),
    ...lane.renewals.map(({ at, isGood }) => drawRenewal(scale.x(at), top + TICKS_TOP, isGood)),
    ...lane.deadlines.flatMap(({ at, text }) => drawDeadline(scale.x(at), top, text)),
    ...markRow(lane.heldBack, top + TICKS_TOP + 15, scale),
    ...drawLabels(lane, top, scale),
  ];
}

function drawBar(bar: Bar, kind: string, top: number, scale: Scale): string {
  const [x, to] = [scale.x(bar.from), scale.x(bar.to)];
  const width = Math.max(2, to - x);
  const rect = element("rect", {
    ...{ class: `${kind} h${bar.holder}`, x, y: top, width, height: BAR_HEIGHT, rx: 3 },
  });
  const fits = widthOf(bar.label) + 12 < width;
  const label = element("text", { class: "onBar", x: x + 7, y: top + 15 }, escape(bar.label));
  return element("g", {}, ...titled(bar.title), rect, ...(fits && bar.label !== "" ? [label] : []));
}

function drawRenewal(x: number, y: number, isGood: boolean): string {
  const title = titled(isGood ? "renewal confirmed" : "renewal failed");
  const lines = isGood
    ? [line(x, y, x, y + 7)]
    : [line(x - 3, y + 1, x + 3, y + 7), line(x - 3, y + 7, x + 3, y + 1)];
  return element("g", { class: isGood ? "renewal" : "renewalFailed" }, ...title, ...lines);
}

/** A line through the bar with a flag on it; its name stands below, on the side where the bar is. */
function drawDeadline(x: number, top: number, text: string): string[] {
  const y = top + BAR_TOP;
  return [
    line(x, y - 6, x, y + BAR_HEIGHT + 6, "deadline"),
    element("path", { class: "flag", d: `M${round(x)} ${y - 8}h-9l3 4l-3 4h9Z` }),
    element("text", { class: "deadlineText", x: x - 5, y: y + BAR_HEIGHT + 14 }, escape(text)),
  ];
}

/** Faults and notes: above the bar where there is room, else below. */
function drawLabels(lane: Lane, top: number, scale: Scale): string[] {
  const rows = [
    { y: top + 16, until: Number.NEGATIVE_INFINITY },
    { y: top + LANE - 10, until: Number.NEGATIVE_INFINITY },
  ];
  const all = [
    ...lane.bands.map(({ from, text }) => ({ at: from, text, kind: "faultText" })),
    ...lane.notes.map(({ at, text }) => ({ at, text, kind: "note" })),
  ].sort((one, other) => one.at - other.at);
  return all.flatMap(({ at, text, kind }) => {
    const x = scale.x(at);
    const row = rows.find(({ until }) => until < x) ?? rows[1];
    if (row === undefined) return [];
    const fits = x + widthOf(text) + 8 < PLOT_WIDTH;
    row.until = x + widthOf(text) + 12;
    const place = fits ? { x: x + 4 } : { x: x - 4, "text-anchor": "end" };
    const stem = kind === "note" ? [line(x, row.y - 9, x, top + BAR_TOP + BAR_HEIGHT, "stem")] : [];
    return [...stem, element("text", { class: kind, ...place, y: row.y }, escape(text))];
  });
}

function drawStore(picture: Picture, top: number, scale: Scale, bottom: number): string[] {
  return [
    ...picture.grants.map((grant) => drawBar(grant, "grant", top + 8, scale)),
    ...picture.expiries.flatMap((at) => {
      const x = scale.x(at);
      return [
        line(x, HEAD, x, bottom, "expiry"),
        element("text", { class: "expiryText", x: x - 5, y: top + 45 }, "expired at the store"),
      ];
    }),
  ];
}

/** A bracket over everything. */
function drawFinding(finding: Picture["findings"][number], scale: Scale): string[] {
  const [x, to] = [scale.x(finding.from), scale.x(finding.to)];
  const kind = finding.isHarm ? "finding harm" : "finding";
  const middle = Math.min(Math.max((x + to) / 2, widthOf(finding.text) / 2 + 8), PLOT_WIDTH - 120);
  return [
    element("path", { class: kind, d: `M${round(x)} 38v-8H${round(Math.max(to, x + 2))}v8` }),
    element("text", { class: `findingText ${kind}`, x: middle, y: 22 }, escape(finding.text)),
  ];
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Both in one, with a size of its own: for a file that is shown as a picture. */
export function joined(drawing: Drawing, top: number): string {
  const { names: left, plot } = drawing;
  return [
    element("g", { transform: `translate(0 ${top})` }, left),
    element("g", { transform: `translate(${NAMES_WIDTH} ${top})` }, plot),
  ].join("\n");
}
