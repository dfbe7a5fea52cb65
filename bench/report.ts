// What is published: results.json with all that was measured last, by each command, and what is made from it: RESULTS.md, the
// pictures, and the part of docs/comparison.md that shows them.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { writeComparison } from "./comparison-page.ts";
import { drawPictures } from "./pictures.ts";
import type { Section } from "./support.ts";

/** What one command measured. */
export interface Part {
  readonly date: string;
  readonly machine: string;
  readonly sections: readonly Section[];
}

export type Command = "bench" | "bench:peers";
type Results = Partial<Record<Command, Part>>;

const JSON_FILE = new URL("./results.json", import.meta.url);
const MARKDOWN_FILE = new URL("./RESULTS.md", import.meta.url);
const ORDER: readonly Command[] = ["bench", "bench:peers"];

/** Replaces what this command had published, all of it or the tables of the same title; the other's figures stay. */
export function publish(command: Command, part: Part, extent: "all" | "some"): void {
  const text = existsSync(JSON_FILE) ? readFileSync(JSON_FILE, "utf8") : "{}";
  const before = JSON.parse(text) as Results;
  const kept = extent === "all" ? [] : (before[command]?.sections ?? []);
  const titles = new Map(kept.map((section) => [section.title, section]));
  for (const section of part.sections) titles.set(section.title, section);
  const results: Results = { ...before, [command]: { ...part, sections: [...titles.values()] } };
  writeFileSync(JSON_FILE, `${JSON.stringify(results, undefined, 2)}\n`);
  writeFileSync(MARKDOWN_FILE, document(results));
  const peers = results["bench:peers"];
  if (command === "bench:peers" && peers !== undefined)
    writeComparison(peers, drawPictures(peers.sections));
}

/** Draws again what was measured last. */
export function redraw(): void {
  const { "bench:peers": peers } = JSON.parse(readFileSync(JSON_FILE, "utf8")) as Results;
  if (peers === undefined) throw new Error("results.json has nothing of `npm run bench:peers`.");
  writeComparison(peers, drawPictures(peers.sections));
}

function document(results: Results): string {
  const parts = ORDER.flatMap((command) => {
    const part = results[command];
    if (part === undefined) return [];
    const head = `Written by \`npm run ${command}\` on ${part.date}.\nMachine: ${part.machine}.`;
    const tables = part.sections.map(table).join("\n");
    return `${head}\nCompare ratios, not absolute figures: they depend on the disk and on what else the machine does.\n\n${tables}`;
  });
  return `# Results\n\n${parts.join("\n---\n\n")}`;
}

function table({ title, method, rows }: Section): string {
  const lines = rows.map((row) => {
    const verdict = row.ok === undefined ? "" : row.ok ? "reached" : "**missed**";
    return `| ${row.what} | ${row.measured} | ${row.target ?? ""} | ${verdict} |`;
  });
  return `## ${title}\n\n${method}\n\n| what | measured | target | |\n|---|---|---|---|\n${lines.join("\n")}\n`;
}
