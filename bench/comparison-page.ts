// docs/comparison.md: the page's own words stand in the file, outside two marks; what is between them is written by the run.

import { readFileSync, writeFileSync } from "node:fs";
import type { Picture } from "./pictures.ts";
import type { Section } from "./support.ts";

const PAGE = new URL("../docs/comparison.md", import.meta.url);
const BEGIN = "<!-- written by npm run bench:peers -->";
const END = "<!-- end -->";

/** All that either command measured; pictures there are only of the comparison. */
export function writeComparison(sections: readonly Section[], pictures: readonly Picture[]): void {
  const text = readFileSync(PAGE, "utf8");
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/comparison.md has lost its marks ${BEGIN}.`);
  const written = [
    "When each table was measured, on which machine and with which versions, stands above it in [bench/RESULTS.md](../bench/RESULTS.md).",
    "## Where Tenure misses its target",
    missed(sections),
    "## Where a peer is ahead, and why",
    aheadOfOurs(sections),
    "## Pictures",
    "Green is Tenure, the dashed line is the raw floor, the thin line on a bar is the spread over the rounds.",
    ...pictures.map(({ file, title }) => `![${title}](pictures/${file})`),
  ];
  const page = `${text.slice(0, begin)}${BEGIN}\n\n${written.join("\n\n")}\n\n${text.slice(end)}`;
  writeFileSync(PAGE, page);
}

/** Of both commands. */
export function missed(sections: readonly Section[]): string {
  const lines = sections.flatMap(({ title, rows }) =>
    rows
      .filter(({ ok }) => ok === false)
      .map(({ what, measured, target = "" }) => `| ${title} | ${what} | ${measured} | ${target} |`),
  );
  if (lines.length === 0) return "Nowhere.";
  return `| row | what | measured | asked |\n|---|---|---|---|\n${lines.join("\n")}`;
}

/** By peer and reason: every row in which a peer does better than ours, also where nothing excuses it. */
export function aheadOfOurs(sections: readonly Section[]): string {
  const found = new Map<string, string[]>();
  for (const { title, rows } of sections) {
    for (const { what, measured, ahead } of rows) {
      if (ahead === undefined) continue;
      const { peer, why = "no reason: we are slower here" } = ahead;
      const figure = what.replace(/: (?:times as good as|ratio to) .*/, "");
      const key = `**${peer}** ${why}.`;
      found.set(key, [...(found.get(key) ?? []), `${title}, ${figure}: ${measured}`]);
    }
  }
  if (found.size === 0) return "Nowhere.";
  return [...found].map(([key, lines]) => `- ${key} ${lines.join("; ")}.`).join("\n");
}
