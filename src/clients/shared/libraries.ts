// The versions of other libraries that Tenure works with, and the version that the application has. Package managers enforce
// the peer ranges only in part (--legacy-peer-deps, Yarn, pnpm), so Tenure checks again when a library is first used.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** The first version that works, and the first major version that was not tested. package.json has the same as peers. */
const SUPPORTED = {
  "@nestjs/common": ["9.0", 13],
  "@nestjs/schedule": ["3.0", 13],
  "better-sqlite3": ["11.0", 14],
  croner: ["9.0", 12],
  ioredis: ["5.0", 7],
  "node-cron": ["4.4", 5],
  pg: ["8.7", 9],
  postgres: ["3.0", 4],
  redis: ["4.6", 7],
} as const;

export type SupportedLibrary = keyof typeof SUPPORTED;

export interface Checked {
  /** False where the library cannot be found, for example because it is part of a bundle. */
  readonly isFound: boolean;
  /** What is wrong with the version, as a sentence for the user; undefined if nothing is. */
  readonly fault: string | undefined;
}

/**
 * `bases` are the files from which the library is looked up. The default is the main script and the working directory: the
 * application, and not Tenure, decides which copy its code imports. Where the two differ, one supported version is enough.
 */
export function checkLibrary(
  name: SupportedLibrary,
  bases: readonly string[] = ownBases(),
): Checked {
  const found = bases.flatMap((base) => versionFrom(base, name) ?? []);
  const [from, below] = SUPPORTED[name];
  const isSupported = (version: string): boolean =>
    asNumber(version) >= asNumber(from) && asNumber(version) < asNumber(`${below}.0`);
  if (found.length === 0 || found.some(isSupported))
    return { isFound: found.length > 0, fault: undefined };
  const fault =
    `${name} ${found[0]} is installed, and Tenure needs ${name} ${from} or newer, below ${below}.0. ` +
    "Change the version in your package.json, then run `npm install`.";
  return { isFound: true, fault };
}

/** For a client of one of these libraries: what is wrong, unless a supported version of one of them is installed. */
export function faultOf(...names: SupportedLibrary[]): string | undefined {
  const checked = names.map((name) => checkLibrary(name));
  if (checked.some(({ isFound, fault }) => isFound && fault === undefined)) return undefined;
  return checked.find(({ fault }) => fault !== undefined)?.fault;
}

function ownBases(): string[] {
  const [, script] = process.argv;
  return [...(script === undefined ? [] : [script]), join(process.cwd(), "index.js")];
}

/** "4.10.2" as 4010: major and minor version decide. */
function asNumber(version: string): number {
  const [major = 0, minor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  return major * 1_000 + minor;
}

/** The package.json is read from the folder of the resolved file upwards, because `exports` may hide it from require(). */
function versionFrom(base: string, name: string): string | undefined {
  try {
    let folder = dirname(createRequire(base).resolve(name));
    for (; dirname(folder) !== folder; folder = dirname(folder)) {
      const manifest = readManifest(folder);
      if (manifest?.name === name) return manifest.version;
    }
  } catch {
    // It is not installed there.
  }
  return undefined;
}

function readManifest(folder: string): { name?: string; version?: string } | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  } catch {
    return undefined;
  }
}
