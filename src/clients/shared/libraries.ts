// Checks the versions of optional libraries. Package managers do not always enforce peer ranges
// (--legacy-peer-deps, Yarn, pnpm), so Tenure checks the installed version when a library is first
// used.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/**
 * The first version that works, and the first major version that was not tested. The peer ranges in
 * package.json are the same.
 */
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
  /** A sentence about an unsupported version; undefined if the version is supported. */
  readonly fault: string | undefined;
}

/**
 * `bases` are the files from which the library is resolved. The default is the main script and the
 * working directory, because the application decides which copy its code imports. If both find a
 * copy, one supported version is enough.
 */
export function checkLibrary(
  name: SupportedLibrary,
  bases: readonly string[] = defaultBases(),
): Checked {
  const found = bases.flatMap((base) => findVersion(base, name) ?? []);
  const [from, below] = SUPPORTED[name];
  const isSupported = (version: string): boolean =>
    toNumber(version) >= toNumber(from) && toNumber(version) < toNumber(`${below}.0`);
  if (found.length === 0 || found.some(isSupported))
    return { isFound: found.length > 0, fault: undefined };
  const fault =
    `${name} ${found[0]} is installed, and Tenure needs ${name} ${from} or newer, below ${below}.0. ` +
    "Change the version in your package.json, then run `npm install`.";
  return { isFound: true, fault };
}

/**
 * A sentence about an unsupported version, unless a supported version of one of them is installed.
 */
export function findFault(...names: SupportedLibrary[]): string | undefined {
  const checked = names.map((name) => checkLibrary(name));
  if (checked.some(({ isFound, fault }) => isFound && fault === undefined)) return undefined;
  return checked.find(({ fault }) => fault !== undefined)?.fault;
}

function defaultBases(): string[] {
  const [, script] = process.argv;
  return [...(script === undefined ? [] : [script]), join(process.cwd(), "index.js")];
}

/** "4.10.2" becomes 4010: only major and minor version are compared. */
function toNumber(version: string): number {
  const [major = 0, minor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  return major * 1_000 + minor;
}

/** Searches package.json from the resolved file upwards, because `exports` may hide it. */
function findVersion(base: string, name: string): string | undefined {
  try {
    let folder = dirname(createRequire(base).resolve(name));
    for (; dirname(folder) !== folder; folder = dirname(folder)) {
      const manifest = readManifest(folder);
      if (manifest?.name === name) return manifest.version;
    }
  } catch {
    // The library is not installed there.
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
