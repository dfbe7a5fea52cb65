// Draws a picture as SVG: one lane per program, one for the store, one for the writes that reached
// the ledger, and a time axis. The names and the plot are separate drawings, so that the names stay
// visible while the plot scrolls.

import { line, markRow, titled } from "./marks.ts";
import { element, escaped } from "./markup.ts";
import type { Bar, Label, Lane, Picture } from "./picture.ts";
import { createScale, estimateWidth, NAMES_WIDTH, PLOT_WIDTH, type Scale } from "./scale.ts";

const HEAD = 44;
const LANE = 98;
const STORE = 52;
const ROW = 22;
const AXIS = 30;
/** At most this many delayed writes are drawn as lines. */
const FLIGHTS_MAX = 12;
/** Positions inside a lane. */
const BAR_TOP = 30;
const BAR_HEIGHT = 22;
const TICKS_TOP = BAR_TOP + BAR_HEIGHT + 3;

export interface Drawing {
  readonly height: number;
  /** Markup without a surrounding <svg>. */
  readonly names: string;
  readonly plot: string;
}

export function drawFigure(picture: Picture): Drawing {
  const scale = createScale(picture);
  const { lanes } = picture;
  const storeTop = HEAD + lanes.length * LANE;
  const ledgerTop = storeTop + STORE;
  const bottom = findRow(ledgerTop, lanes.length);
  const plot = [
    ...backgrounds(picture, storeTop, ledgerTop, bottom),
    ...axis(scale, bottom),
    ...picture.network.flatMap((label) => networkBand(label, scale, bottom)),
    ...lanes.flatMap((lane, index) => drawBands(lane, HEAD + index * LANE, scale)),
    ...lanes.flatMap((lane, index) => drawFlights(lane, index, findRow(ledgerTop, index), scale)),
    ...lanes.flatMap((lane, index) => drawBars(lane, HEAD + index * LANE, scale)),
    ...drawStore(picture, storeTop, scale, bottom),
    // Drawn after the vertical lines, so that the labels stay readable.
    ...lanes.flatMap((lane, index) => drawSigns(lane, HEAD + index * LANE, scale)),
    ...lanes.flatMap(({ writes }, index) => markRow(writes, findRow(ledgerTop, index), scale)),
    ...picture.findings.flatMap((finding) => drawFinding(finding, scale)),
  ];
  return {
    height: bottom + AXIS,
    names: names(picture, storeTop, ledgerTop).join(""),
    plot: plot.join("\n"),
  };
}

/** The vertical position of one program's writes. */
function findRow(ledgerTop: number, index: number): number {
  return ledgerTop + 34 + index * ROW;
}

/** Draws a line from the sending of a write to its arrival, if that took long. */
function drawFlights(lane: Lane, index: number, row: number, scale: Scale): string[] {
  const y = HEAD + index * LANE + BAR_TOP + BAR_HEIGHT;
  const late = lane.writes.filter(({ sentAt }) => sentAt !== undefined);
  const step = Math.ceil(late.length / FLIGHTS_MAX);
  return late.flatMap(({ at, sentAt = at }, place) =>
    place % step === 0 || place === late.length - 1
      ? [line(scale.x(sentAt), y, scale.x(at), row, "flight")]
      : [],
  );
}

function names({ lanes, ledger }: Picture, storeTop: number, ledgerTop: number): string[] {
  const name = (y: number, text: string, kind = "name"): string =>
    element("text", { class: kind, x: 8, y }, escaped(text));
  return [
    ...lanes.flatMap((lane, index) => [
      element("rect", {
        class: `h${lane.index}`,
        x: 0,
        y: HEAD + index * LANE + BAR_TOP,
        width: 4,
        height: BAR_HEIGHT,
      }),
      name(HEAD + index * LANE + BAR_TOP + 16, lane.name),
    ]),
    name(storeTop + 26, "store"),
    name(ledgerTop + 18, ledger),
    ...lanes.map((lane, index) =>
      name(findRow(ledgerTop, index) + 4, `from ${lane.name}`, "small"),
    ),
  ];
}

function backgrounds(
  picture: Picture,
  storeTop: number,
  ledgerTop: number,
  bottom: number,
): string[] {
  const stripe = (y: number, height: number, index: number): string =>
    element("rect", { class: `lane${index % 2}`, x: 0, y, width: PLOT_WIDTH, height });
  const { lanes } = picture;
  return [
    ...lanes.map((_, index) => stripe(HEAD + index * LANE, LANE, index)),
    stripe(storeTop, STORE, lanes.length),
    stripe(ledgerTop, bottom - ledgerTop, lanes.length + 1),
  ];
}

function axis(scale: Scale, bottom: number): string[] {
  return scale.ticks().flatMap(({ at, text }) => {
    const x = scale.x(at);
    return [
      line(x, HEAD, x, bottom, "grid"),
      element(
        "text",
        { class: "time", x: Math.max(x, estimateWidth(text) / 2), y: bottom + 18 },
        escaped(text),
      ),
    ];
  });
}

function networkBand(label: Label, scale: Scale, bottom: number): string[] {
  const [x, to] = [scale.x(label.from), scale.x(label.to)];
  return [
    element("rect", { class: "fault", x, y: HEAD - 4, width: to - x, height: bottom - HEAD + 4 }),
    element("text", { class: "faultText", x: to + 4, y: HEAD + 10 }, escaped(label.text)),
  ];
}

function drawBands(lane: Lane, top: number, scale: Scale): string[] {
  return lane.bands.map(({ from, to }) => {
    const x = scale.x(from);
    const size = { width: scale.x(to) - x, height: LANE - 8 };
    return element("rect", { class: "fault", x, y: top + 4, ...size });
  });
}

function drawBars(lane: Lane, top: number, scale: Scale): string[] {
  const bar =
    (kind: string) =>
    (each: Bar): string =>
      drawBar(each, kind, top + BAR_TOP, scale);
  return [
    ...lane.asks.map((at) => {
      const [x, y] = [scale.x(at), top + BAR_TOP + BAR_HEIGHT / 2];
      return element(
        "g",
        { class: "ask" },
        ...titled("requests the lease"),
        line(x, y - 4, x, y + 4),
      );
    }),
    ...lane.afterwards.map(bar("afterwards")),
    ...lane.bars.map(bar("bar")),
    ...lane.doubts.map(({ from, to }) => {
      const x = scale.x(from);
      const size = { width: Math.max(3, scale.x(to) - x), height: BAR_HEIGHT };
      const title = titled("in doubt: a renewal failed, and none has succeeded since");
      return element("rect", { class: "doubt", x, y: top + BAR_TOP, ...size }, ...title);
    }),
  ];
}

function drawSigns(lane: Lane, top: number, scale: Scale): string[] {
  return [
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
    class: `${kind} h${bar.holder}`,
    x,
    y: top,
    width,
    height: BAR_HEIGHT,
    rx: 3,
  });
  const fits = estimateWidth(bar.label) + 12 < width;
  const label = element("text", { class: "onBar", x: x + 7, y: top + 15 }, escaped(bar.label));
  return element("g", {}, ...titled(bar.title), rect, ...(fits && bar.label !== "" ? [label] : []));
}

function drawRenewal(x: number, y: number, isGood: boolean): string {
  const title = titled(isGood ? "renewal confirmed" : "renewal failed");
  const lines = isGood
    ? [line(x, y, x, y + 7)]
    : [line(x - 3, y + 1, x + 3, y + 7), line(x - 3, y + 7, x + 3, y + 1)];
  return element("g", { class: isGood ? "renewal" : "renewalFailed" }, ...title, ...lines);
}

/**
 * Draws a line through the bar with a flag. Its label is below and to the right, where there are no
 * more renewals.
 */
function drawDeadline(x: number, top: number, text: string): string[] {
  const y = top + BAR_TOP;
  const fits = x + estimateWidth(text) + 8 < PLOT_WIDTH;
  const place = fits ? { x: x + 5 } : { x: x - 5, "text-anchor": "end" };
  return [
    line(x, y - 6, x, y + BAR_HEIGHT + 6, "deadline"),
    element("path", { class: "flag", d: `M${round(x)} ${y - 9}l-10 4.5l10 4.5Z` }),
    element("text", { class: "deadlineText", ...place, y: y + BAR_HEIGHT + 14 }, escaped(text)),
  ];
}

/** Draws faults and notes above the bar if there is room, else below it. */
function drawLabels(lane: Lane, top: number, scale: Scale): string[] {
  const rows = [
    { y: top + 15, until: Number.NEGATIVE_INFINITY },
    { y: top + LANE - 10, until: Number.NEGATIVE_INFINITY },
  ];
  const all = [
    ...lane.bands.map((label) => ({ label, kind: "faultText" })),
    ...lane.notes.map((label) => ({ label, kind: "note" })),
  ].sort((one, other) => one.label.from - other.label.from);
  return all.flatMap(({ label: { from, to, text }, kind }) => {
    const x = scale.x(from);
    const row = rows.find(({ until }) => until < x) ?? rows[1];
    if (row === undefined) return [];
    const fits = x + estimateWidth(text) + 8 < PLOT_WIDTH;
    row.until = Math.max(x + estimateWidth(text) + 12, kind === "note" ? scale.x(to) : 0);
    const place = fits ? { x: x + 4 } : { x: x - 4, "text-anchor": "end" };
    const sign = kind === "note" ? drawNote(x, scale.x(to), row.y, top) : [];
    return [...sign, element("text", { class: kind, ...place, y: row.y }, escaped(text))];
  });
}

/** An instant gets a stem to the bar, a period a line of its length. */
function drawNote(x: number, to: number, y: number, top: number): string[] {
  if (to - x < 1) return [line(x, y - 9, x, top + BAR_TOP + BAR_HEIGHT, "stem")];
  return [
    line(x, y + 5, to, y + 5, "stem"),
    line(x, y, x, y + 8, "stem"),
    line(to, y, to, y + 8, "stem"),
  ];
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

/** Draws a bracket above all lanes. */
function drawFinding(finding: Picture["findings"][number], scale: Scale): string[] {
  const [x, to] = [scale.x(finding.from), scale.x(finding.to)];
  const kind = finding.isHarm ? "finding harm" : "finding";
  const middle = Math.min(
    Math.max((x + to) / 2, estimateWidth(finding.text) / 2 + 8),
    PLOT_WIDTH - 120,
  );
  return [
    element("path", { class: kind, d: `M${round(x)} 38v-8H${round(Math.max(to, x + 2))}v8` }),
    element("text", { class: `findingText ${kind}`, x: middle, y: 22 }, escaped(finding.text)),
  ];
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Joins names and plot, for a file that is shown as a picture. */
export function joined(drawing: Drawing, top: number): string {
  const { names: left, plot } = drawing;
  return [
    element("g", { transform: `translate(0 ${top})` }, left),
    element("g", { transform: `translate(${NAMES_WIDTH} ${top})` }, plot),
  ].join("\n");
}
