// The libraries that Tenure is compared with. They are a package of their own, pinned, with its own node_modules: whoever
// uses or tests Tenure never installs them. The first benchmark that asks for one does.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export type PeerName = "redlock" | "redis-semaphore" | "redlock-universal" | "etcd3" | "ioredis";

const FOLDER = fileURLToPath(new URL("./", import.meta.url));
const requirePeer = createRequire(new URL("./package.json", import.meta.url));
let installing: Promise<void> | undefined;

/** The peer's module, installed first where it is missing. Its types are the caller's affair. */
export async function loadPeer<T>(name: PeerName): Promise<T> {
  await installPeers();
  return requirePeer(name) as T;
}

const missing = new Set<PeerName>();

/** Who could not be installed in this run: its figures are not those of a whole one, and must not replace them. */
export function leftOut(): readonly PeerName[] {
  return [...missing];
}

/** "5.8.0": the version that is installed is the pinned one. */
export function pinnedVersion(name: string): string {
  return readManifest(`${FOLDER}package.json`).dependencies?.[name] ?? "unknown";
}

/** Undefined when there is no network to install it from: the row is then left out, and named. */
export async function tryLoadPeer<T>(name: PeerName): Promise<T | undefined> {
  try {
    return await loadPeer<T>(name);
  } catch (error) {
    missing.add(name);
    console.log(`  the peer ${name} is left out: ${(error as Error).message}`);
    return undefined;
  }
}

/** Installs all of them, unless every pinned version is there already. Asked once per process. */
function installPeers(): Promise<void> {
  installing ??= isComplete() ? Promise.resolve() : npmCi();
  return installing;
}

function isComplete(): boolean {
  const { dependencies } = readManifest(`${FOLDER}package.json`);
  return Object.entries(dependencies ?? {}).every(([name, wanted]) => {
    const path = `${FOLDER}node_modules/${name}/package.json`;
    // redlock writes its own version with a v in front.
    return existsSync(path) && readManifest(path).version?.replace(/^v/, "") === wanted;
  });
}

function readManifest(path: string): { version?: string; dependencies?: Record<string, string> } {
  return JSON.parse(readFileSync(path, "utf8"));
}

/** Without install scripts: none of them needs one. redlock-universal asks for Node 22, and runs on 20 all the same. */
function npmCi(): Promise<void> {
  console.log("  installing the peers (bench/peers) ...");
  const args = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  return new Promise((resolve, reject) => {
    const npm = spawn("npm", args, { cwd: FOLDER, stdio: "inherit" });
    npm.once("error", reject);
    npm.once("exit", (code) =>
      code === 0 ? resolve() : reject(new Error(`npm ci in bench/peers ended with ${code}`)),
    );
  });
}
