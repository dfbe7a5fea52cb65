// Makes the links in the README absolute while npm packs, because the package contains the README
// but not the files that it links to. npm runs `node scripts/readme-links.mjs absolute` before
// packing (prepack) and `relative` afterwards (postpack). If packing is interrupted in between, run
// the second by hand.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "./run.mjs";

const { homepage } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
/** HEAD is the default branch. */
const base = `${homepage.replace(/#.*$/, "")}/blob/HEAD/`;

/** Turns links to files of the repository into web links. Links within the page stay. */
export function absolute(text) {
  return text.replace(/\]\((?![a-z]+:|#)/g, `](${base}`);
}

export function relative(text) {
  return text.replaceAll(`](${base}`, "](");
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const changes = { absolute, relative };
  const change = changes[process.argv[2]];
  if (change === undefined) throw new Error("Expected absolute or relative.");
  const file = join(root, "README.md");
  writeFileSync(file, change(readFileSync(file, "utf8")));
}
