// `npm run format` generates the import rules in biome.jsonc from the table of layers, then formats
// the source tree.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { biomeOverrides } from "../test/support/repo/layers.ts";

const FILE = new URL("../biome.jsonc", import.meta.url);
const MARK = "    // Generated from test/support/repo/layers.ts by `npm run format`.\n";

const text = readFileSync(FILE, "utf8");
const kept = text.slice(0, text.indexOf(MARK) + MARK.length);
const rules = biomeOverrides().map((rule) => JSON.stringify(rule, undefined, 2));
const indented = rules.map((rule) => rule.replace(/^/gm, "    ")).join(",\n");
writeFileSync(FILE, `${kept}${indented}\n  ]\n}\n`);

const biome = new URL("../node_modules/@biomejs/biome/bin/biome", import.meta.url);
const args = [fileURLToPath(biome), "check", "--write", ...process.argv.slice(2)];
process.exitCode = spawnSync(process.execPath, args, { stdio: "inherit" }).status ?? 1;
