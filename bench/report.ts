// What is published: results.json with all that was measured last, by each command, and what is made from it: RESULTS.md, the
// pictures, and the part of docs/comparison.md that shows them.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { writeComparison } from "./comparison-page.ts";
import { drawPictures } from "./pictures.ts";
import { origin } from "./provenance.ts";
import type { Section } from "./support.ts";

export type Command = "bench" | "bench:peers";

/** Each section says itself when and with what it was measured. */
export type Results = Partial<Record<Command, { readonly sections: readonly Section[] }>>;

const JSON_FILE = new URL("./results.json", import.meta.url);
const MARKDOWN_FILE = new URL("./RESULTS.md", import.meta.url);
const ORDER: readonly Command[] = ["bench", "bench:peers"];

/** Why what was measured must not replace what is published; undefined: it may. */
export function unpublishable(missingPeers: readonly string[]): string | undefined {
  if (missingPeers.length === 0) return undefined;
  return `nothing was written: the peers could not be installed (asked for: ${missingPeers.join(", ")}), and the tables would lose what they compare with. Run npm ci in bench/peers, then this again`;
}

/** Replaces what this command had published, all of it or the tables of the same title; the other's figures stay. */
export function publish(
  command: Command,
  sections: readonly Section[],
  extent: "all" | "some",
): void {
  const results = merged(published(), command, { sections, extent });
  writeFileSync(JSON_FILE, `${JSON.stringify(results, undefined, 2)}\n`);
  draw(results);
}

/** Tables that are kept stay as they are, with their own date and versions. */
export function merged(
  before: Results,
  command: Command,
  { sections, extent }: { readonly sections: readonly Section[]; readonly extent: "all" | "some" },
): Results {
  const kept = extent === "all" ? [] : (before[command]?.sections ?? []);
  const titles = new Map(kept.map((section) => [section.title, section]));
  for (const section of sections) titles.set(section.title, section);
  return { ...before, [command]: { sections: [...titles.values()] } };
}

/** Draws again what was measured last. */
export function redraw(): void {
  draw(published());
}

function published(): Results {
  return JSON.parse(existsSync(JSON_FILE) ? readFileSync(JSON_FILE, "utf8") : "{}") as Results;
}

function draw(results: Results): void {
  writeFileSync(MARKDOWN_FILE, document(results));
  const peers = results["bench:peers"]?.sections ?? [];
  writeComparison([...(results.bench?.sections ?? []), ...peers], drawPictures(peers));
}

function document(results: Results): string {
  const parts = ORDER.flatMap((command) => {
    const sections = results[command]?.sections;
    if (sections === undefined) return [];
    const head = `Written by \`npm run ${command}\`. Each table says when it was measured, and with what.`;
    const tables = sections.map(table).join("\n");
    return `${head}\nCompare ratios, not absolute figures: they depend on the disk and on what else the machine does.\n\n${tables}`;
  });
  return `# Results\n\n${parts.join("\n---\n\n")}`;
}

function table(section: Section): string {
  const { title, method, rows } = section;
  const lines = rows.map((row) => {
    const verdict = row.ok === undefined ? "" : row.ok ? "reached" : "**missed**";
    return `| ${row.what} | ${row.measured} | ${row.target ?? ""} | ${verdict} |`;
  });
  return `## ${title}\n\n${method}\n\n${origin(section)}\n\n| what | measured | target | |\n|---|---|---|---|\n${lines.join("\n")}\n`;
}
