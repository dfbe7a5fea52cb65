// The size of each package as unpacked, and how many other packages an install brings along.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { atMost, type Row, type Section } from "../results.ts";
import { sum } from "../statistics.ts";
import type { Context } from "../topic.ts";
import { peerPackages } from "./peers.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MODULES = fileURLToPath(new URL("./node_modules/", import.meta.url));

export async function* packageSize({ withPeers }: Context): AsyncGenerator<Section> {
  const rows = (withPeers ? peerPackages() : []).map((name): Row => {
    const packages = findDependencies(name);
    const bytes = sum([...packages].map((each) => countBytes(join(MODULES, each))));
    return {
      label: `${name} with its dependencies`,
      measured: `${formatSize(bytes)}, ${packages.size - 1} dependencies`,
    };
  });
  yield {
    title: "Package",
    method: "Bytes as unpacked, and how many other packages an install brings along.",
    rows: [
      { label: "tenure", measured: formatSize(readPackedSize()) },
      atMost("tenure: dependencies", readDependencies(ROOT).length, 0, String),
      ...rows,
    ],
  };
}

function formatSize(bytes: number): string {
  return `${Math.round(bytes / 1_000)} kB`;
}

/** Not everything that is built is shipped, so npm decides. */
function readPackedSize(): number {
  const output = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [pack] = JSON.parse(output) as { readonly unpackedSize: number }[];
  if (pack === undefined) throw new Error("npm pack reported no package.");
  return pack.unpackedSize;
}

function readDependencies(folder: string): string[] {
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    dependencies?: Record<string, string>;
  };
  return Object.keys(manifest.dependencies ?? {});
}

/** The package and all that it needs, as far as it is installed. */
function findDependencies(name: string, found: Set<string> = new Set()): Set<string> {
  const folder = join(MODULES, name);
  if (found.has(name) || !existsSync(folder)) return found;
  found.add(name);
  for (const each of readDependencies(folder)) findDependencies(each, found);
  return found;
}

function countBytes(path: string): number {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.size;
  const names = readdirSync(path).filter((name) => name !== "node_modules");
  return sum(names.map((name) => countBytes(join(path, name))));
}
