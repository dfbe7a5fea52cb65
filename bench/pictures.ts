// Draws the pictures of docs/comparison.md from the results of a run of `npm run bench:peers`:
//   node --import tsx bench/pictures.ts bench/results/<date>.json
// Bars start at zero; the thin line on a bar is the range over the rounds.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readRun, type Section, type Series } from "./results.ts";
import { median } from "./statistics.ts";

const FOLDER = new URL("../docs/pictures/", import.meta.url);
const WIDTH = 760;
const LABEL_WIDTH = 190;
const VALUE_WIDTH = 150;
const ROW_HEIGHT = 26;
const HEAD_HEIGHT = 46;

interface Picture {
  readonly file: string;
  readonly section: string;
  readonly figure: string;
  readonly title: string;
}

const pictures: readonly Picture[] = [
  {
    file: "comparison-pairs.svg",
    section: "Redis: acquire and release, 1 in flight",
    figure: "pairs",
    title: "Redis: acquire and release, one at a time",
  },
  {
    file: "comparison-handover.svg",
    section: "Redis: handover between two processes",
    figure: "times",
    title: "Redis: handover between two processes",
  },
  {
    file: "comparison-waiters.svg",
    section: "Redis: 100 waiters on one lock",
    figure: "a second of waiting",
    title: "Redis: requests per second of 100 waiters on one lock",
  },
  {
    file: "comparison-held.svg",
    section: "Redis: 10,000 locks held by one process",
    figure: "requests",
    title: "Redis: requests in 30 s to keep 10,000 locks",
  },
];

/** Follows the reader's colour scheme, on a background of its own. */
const STYLE = `<style>
:root{color-scheme:light dark}.paper{fill:#ffffff}
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}.note{fill:#59636e;font-size:12px}
.tenure{fill:#1a7f5a}.peer{fill:#8c959f}.baseline{fill:#d4a72c}.line{stroke:#1f2328}
@media (prefers-color-scheme:dark){.paper{fill:#12161c}text{fill:#f0f6fc}.note{fill:#9198a1}
.tenure{fill:#3fb984}.peer{fill:#6e7681}.baseline{fill:#9e6a03}.line{stroke:#f0f6fc}}
</style>`;

export function drawBars(title: string, note: string, series: readonly Series[]): string {
  const most = Math.max(...series.flatMap(({ values }) => values), Number.MIN_VALUE);
  const scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / most;
  const toX = (value: number): string => (LABEL_WIDTH + value * scale).toFixed(1);
  const rows = series.map(({ name, kind, unit, values }, index) => {
    const top = HEAD_HEIGHT + index * ROW_HEIGHT;
    const centre = top + ROW_HEIGHT / 2 - 2;
    const [low, middle, high] = [Math.min(...values), median(values), Math.max(...values)];
    const width = Math.max(1, middle * scale).toFixed(1);
    const range = `<path class="line" d="M${toX(low)} ${centre}H${toX(high)}M${toX(low)} ${centre - 4}v8M${toX(high)} ${centre - 4}v8"/>`;
    return `<text x="${LABEL_WIDTH - 8}" y="${centre + 5}" text-anchor="end">${escapeXml(name)}</text>
<rect class="${kind}" x="${LABEL_WIDTH}" y="${top + 2}" width="${width}" height="${ROW_HEIGHT - 8}" rx="2"/>
${low < high ? range : ""}
<text x="${Number(toX(high)) + 8}" y="${centre + 5}">${escapeXml(`${format(middle)} ${unit}`)}</text>`;
  });
  const height = HEAD_HEIGHT + series.length * ROW_HEIGHT + 8;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>${escapeXml(title)}</title>${STYLE}
<rect class="paper" width="100%" height="100%"/>
<text class="title" x="8" y="18">${escapeXml(title)}</text><text class="note" x="8" y="36">${escapeXml(note)}</text>
${rows.join("\n")}
</svg>
`;
}

function format(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1) : String(Number(value.toPrecision(2)));
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function drawAll(sections: readonly Section[], date: string): void {
  for (const { file, section, figure, title } of pictures) {
    const all = sections.find((each) => each.title === section)?.series ?? [];
    const series = all.filter((each) => each.figure === figure);
    if (series.length === 0) throw new Error(`The results have no "${figure}" of "${section}".`);
    const better = figure === "pairs" ? "more is better" : "less is better";
    const note = `median; ${better}; measured on ${date}`;
    writeFileSync(new URL(file, FOLDER), drawBars(title, note, series));
  }
}

const [program, path] = process.argv.slice(1);
if (program === fileURLToPath(import.meta.url) && path !== undefined) {
  const run = readRun(path);
  drawAll(run.sections, run.startedAt.slice(0, 10));
}
