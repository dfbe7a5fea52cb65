// Installs the libraries that Tenure is compared with. They are a package of their own with pinned
// versions, so that using or testing Tenure never installs them.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("./", import.meta.url));

/** Installs all of them, unless every pinned version is there already. */
export async function installPeers(): Promise<void> {
  if (isComplete()) return;
  console.error("  installing the peers (bench/peers) ...");
  // None of them needs its install scripts. redlock-universal asks for Node 22 but runs on 20.
  const args = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  await new Promise<void>((resolve, reject) => {
    const npm = spawn("npm", args, { cwd: FOLDER, stdio: ["ignore", "ignore", "inherit"] });
    npm.once("error", reject);
    npm.once("exit", (code) =>
      code === 0
        ? resolve()
        : reject(
            new Error(`The peers are not installed: npm ci in bench/peers ended with ${code}.`),
          ),
    );
  });
}

/** "5.8.0" */
export function readPinnedVersion(name: string): string {
  return readPinned()[name] ?? "unknown";
}

/** "redlock@5.0.0-beta.2" for each of them. */
export function listPinned(): string[] {
  return Object.entries(readPinned()).map(([name, version]) => `${name}@${version}`);
}

function isComplete(): boolean {
  return Object.entries(readPinned()).every(([name, pinned]) => {
    const path = `${FOLDER}node_modules/${name}/package.json`;
    // redlock's own version begins with a v.
    return existsSync(path) && readManifest(path).version?.replace(/^v/, "") === pinned;
  });
}

function readPinned(): Record<string, string> {
  return readManifest(`${FOLDER}package.json`).dependencies ?? {};
}

function readManifest(path: string): { version?: string; dependencies?: Record<string, string> } {
  return JSON.parse(readFileSync(path, "utf8"));
}
