// Pictures of the comparison, as SVG: made from results.json alone, so that they can be drawn again without measuring.
// Bars begin at zero and carry their value; the thin line on a bar is the spread over the rounds; the dashed line is the raw
// floor. A distribution is drawn as strips on a logarithmic axis, since its members differ by three powers of ten.

import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { highEnd, median, type Section, type Series } from "./support.ts";

const FOLDER = fileURLToPath(new URL("../docs/pictures/", import.meta.url));
const WIDTH = 760;
const LABEL = 190;
const VALUE = 130;
const ROW = 26;
const HEAD = 46;

/** Light and dark by the reader's setting, which an <img> obeys, too; on paper of its own, since the page need not obey it. */
const STYLE = `<style>
:root{color-scheme:light dark}.paper{fill:#ffffff}
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}.note,.tick{fill:#59636e;font-size:12px}
.ours{fill:#1a7f5a}.peer{fill:#8c959f}.floor{fill:none;stroke:#9a6700}.line{stroke:#1f2328}.grid{stroke:#d1d9e0}
.dot{fill-opacity:.5}
@media (prefers-color-scheme:dark){.paper{fill:#12161c}text{fill:#f0f6fc}.note,.tick{fill:#9198a1}.ours{fill:#3fb984}.peer{fill:#6e7681}
.dot.peer{fill:#c4ccd4}.floor{stroke:#d29922}.line{stroke:#f0f6fc}.grid{stroke:#3d444d}}
</style>`;

export interface Picture {
  readonly file: string;
  readonly title: string;
}

/** Draws all that these sections have figures for, and tells which files there are now. */
export function drawPictures(sections: readonly Section[]): Picture[] {
  mkdirSync(FOLDER, { recursive: true });
  const pictures: Picture[] = [];
  for (const { title, series = [] } of sections) {
    const figures = new Set(series.map((each) => each.figure));
    for (const figure of figures) {
      // All of it says more than two numbers of it.
      if (figures.has("each") && figure !== "each") continue;
      const all = series.filter((each) => each.figure === figure && each.values.length > 0);
      if (all.length < 2) continue;
      const isSaid = figure === "each" || title.toLowerCase().includes(figure);
      const whole = isSaid ? title : `${title}: ${figure}`;
      const file = `bench-${slug(whole)}.svg`;
      writeFileSync(`${FOLDER}${file}`, figure === "each" ? strips(title, all) : bars(whole, all));
      pictures.push({ file, title: whole });
    }
  }
  return pictures;
}

function slug(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
}

export function bars(title: string, all: readonly Series[]): string {
  const [first] = all;
  const unit = first?.unit ?? "ms";
  const floor = all.find(({ kind }) => kind === "floor");
  const shown = all.filter((each) => each !== floor);
  const most = Math.max(...all.flatMap(({ values }) => values), Number.MIN_VALUE);
  const room = WIDTH - LABEL - VALUE;
  const x = (value: number): number => LABEL + (value / most) * room;
  const rows = shown.map(({ name, kind, values }, index) => {
    const top = HEAD + index * ROW;
    const [low, middle, high] = [Math.min(...values), median(values), Math.max(...values)];
    const centre = top + ROW / 2 - 2;
    const whisker = `<path class="line" d="M${at(x(low))} ${centre}H${at(x(high))}M${at(x(low))} ${centre - 4}v8M${at(x(high))} ${centre - 4}v8"/>`;
    return `<text x="${LABEL - 8}" y="${centre + 5}" text-anchor="end">${escaped(name)}</text>
<rect class="${kind}" x="${LABEL}" y="${top + 2}" width="${at(Math.max(1, x(middle) - LABEL))}" height="${ROW - 8}" rx="2"/>
${low < high ? whisker : ""}
<text x="${at(x(high) + 8)}" y="${centre + 5}">${escaped(`${short(middle)} ${unit}`)}</text>`;
  });
  const bottom = HEAD + shown.length * ROW;
  const line =
    floor === undefined
      ? ""
      : `<path class="floor" stroke-width="2" stroke-dasharray="5 4" d="M${at(x(median(floor.values)))} ${HEAD - 4}V${bottom}"/>
<text class="note" x="${LABEL}" y="${bottom + 16}">dashed: ${escaped(floor.name)}, ${short(median(floor.values))} ${unit}</text>`;
  const better = unit === "/s" ? "more is better" : "less is better";
  return svg(title, better, bottom + (floor === undefined ? 8 : 26), [line, ...rows]);
}

function strips(title: string, all: readonly Series[]): string {
  const values = all.flatMap((each) => each.values).filter((value) => value > 0);
  const [low, high] = [10 ** Math.floor(Math.log10(Math.min(...values))), Math.max(...values)];
  const powers = Math.max(1, Math.ceil(Math.log10(high / low)));
  const room = WIDTH - LABEL - VALUE;
  const x = (value: number): number =>
    LABEL + (Math.max(0, Math.log10(Math.max(value, low) / low)) / powers) * room;
  const bottom = HEAD + all.length * ROW;
  const ticks = Array.from({ length: powers + 1 }, (_, power) => {
    const value = low * 10 ** power;
    return `<path class="grid" d="M${at(x(value))} ${HEAD - 4}V${bottom}"/><text class="tick" x="${at(x(value))}" y="${bottom + 15}" text-anchor="middle">${short(value)} ms</text>`;
  });
  const rows = all.map(({ name, kind, values: each }, index) => {
    const centre = HEAD + index * ROW + ROW / 2 - 2;
    // One dot per value, at a height that only keeps neighbours apart.
    const dots = thinned(each).map(
      (value, number) =>
        `<circle class="dot ${kind}" cx="${at(x(value))}" cy="${centre + ((number * 7) % 13) - 6}" r="2.5"/>`,
    );
    const [p50, worst] = [median(each), highEnd(each)];
    return `<text x="${LABEL - 8}" y="${centre + 5}" text-anchor="end">${escaped(name)}</text>${dots.join("")}
<path class="line" stroke-width="2" d="M${at(x(p50))} ${centre - 9}v18"/>
<text x="${WIDTH - VALUE + 8}" y="${centre + 5}">${short(p50)} / ${short(worst.value)} ms</text>`;
  });
  const ends = [...new Set(all.map((each) => highEnd(each.values).name))].join(" or ");
  const note = `each dot one time, logarithmic; stroke: p50; right: p50 / ${ends}`;
  return svg(title, note, bottom + 24, [...ticks, ...rows]);
}

/** A picture of thousands of dots says no more than one of two hundred. */
function thinned(values: readonly number[]): number[] {
  const step = Math.max(1, Math.floor(values.length / 200));
  return [...values].sort((a, b) => a - b).filter((_, index) => index % step === 0);
}

function svg(title: string, note: string, height: number, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>${escaped(title)}</title>${STYLE}
<rect class="paper" width="100%" height="100%"/>
<text class="title" x="8" y="18">${escaped(title)}</text><text class="note" x="8" y="36">${escaped(note)}</text>
${parts.join("\n")}
</svg>
`;
}

function at(value: number): string {
  return value.toFixed(1);
}

function short(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  if (value >= 10) return value.toFixed(1);
  return String(Number(value.toPrecision(2)));
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
