// docs/comparison.md: the page's own words stand in the file, outside two marks; what is between them is written by the run.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { Picture } from "./pictures.ts";
import type { Section } from "./support.ts";

const PAGE = new URL("../docs/comparison.md", import.meta.url);
const BEGIN = "<!-- written by npm run bench:peers -->";
const END = "<!-- end -->";

interface Part {
  readonly date: string;
  readonly machine: string;
  readonly sections: readonly Section[];
}

export function writeComparison(
  { date, machine, sections }: Part,
  pictures: readonly Picture[],
): void {
  if (!existsSync(PAGE)) throw new Error("docs/comparison.md is missing.");
  const text = readFileSync(PAGE, "utf8");
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/comparison.md has lost its marks ${BEGIN}.`);
  const missed = sections.flatMap(({ title, rows }) =>
    rows
      .filter(({ ok }) => ok === false)
      .map(
        (row) =>
          `- ${title}, ${row.what}: ${row.measured}${row.target ? `, asked: ${row.target}` : ""}`,
      ),
  );
  const behind = sections.flatMap(({ title, rows }) =>
    rows
      .filter(({ ok, target }) => ok === undefined && target?.startsWith("does less"))
      .map(({ what, measured, target }) => `- ${title}, ${what}: ${measured}; the peer ${target}`),
  );
  const written = [
    `Measured on ${date}. ${machine}.`,
    "## Where Tenure is behind",
    missed.length === 0 ? "Nowhere without a reason." : missed.join("\n"),
    "## Where a peer is ahead because it does less",
    behind.length === 0 ? "Nowhere." : behind.join("\n"),
    "## Pictures",
    ...pictures.map(({ file, title }) => `![${title}](pictures/${file})`),
  ];
  writeFileSync(
    PAGE,
    `${text.slice(0, begin)}${BEGIN}\n\n${written.join("\n\n")}\n\n${text.slice(end)}`,
  );
}
