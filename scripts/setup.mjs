// Prepares a clone: installs packages and builds, each only if its inputs have changed. It uses
// `npm install --no-save` rather than `npm ci`. Both follow the lockfile and never write it, but
// the former also supports a platform whose optional binaries the lockfile does not list. This file
// itself rejects a lockfile that does not match package.json.
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join } from "node:path";
import { withFolderLock } from "./folder-lock.mjs";
import { npm, root, run, seconds, tool } from "./run.mjs";

const startedAt = performance.now();
const installStamp = join(root, "node_modules", ".tenure-install");
const buildStamp = join(root, "node_modules", ".tenure-build");

/** An error whose message is meant for the user. It is printed without a stack trace. */
export class SetupError extends Error {}

/**
 * Installs and builds what is missing or outdated. `build`: "no", "if-needed" or "always".
 * `packages`: the development packages that the job needs. By default, all of them.
 */
export async function setUp({ build, packages }) {
  if (isInstalled(packages) && (build === "no" || (build === "if-needed" && isBuilt()))) return;
  const onWait = (pid) => say(`waiting for another set-up in this clone (process ${pid})`);
  await withFolderLock(join(root, ".bootstrap-lock"), onWait, async () => {
    // Checked again under the lock: another process may have done the work in the meantime.
    if (!isInstalled(packages)) await install(packages);
    if (build === "always" || (build === "if-needed" && !isBuilt())) await compile();
  });
}

function say(text) {
  console.log(`[${seconds(startedAt).padStart(7)}] ${text}`);
}

// ---- install

function installKey(packages = []) {
  return hash(["package-lock.json"], [process.versions.modules, ...packages].join(" "));
}

/** Whether these packages are installed, alone or with all others. */
function isInstalled(packages) {
  return [installKey(), installKey(packages)].includes(readStamp(installStamp));
}

async function install(packages) {
  checkLockfile();
  const key = installKey(packages);
  // A folder of its own, because npm installs either all packages of a manifest or none.
  const folder = packages === undefined ? root : writeManifestOf(packages);
  const args = ["install", "--no-save", "--no-audit", "--no-fund"];
  // If Node has its own SQLite, better-sqlite3 need not be compiled and no compiler is required.
  const hasSqlite = isBuiltin("node:sqlite");
  if (hasSqlite) args.push("--ignore-scripts");
  say(
    hasSqlite
      ? "installing packages"
      : "installing packages; Node 20 has no SQLite of its own, so better-sqlite3 is compiled: about 1.5 minutes, once",
  );
  // From scratch, like `npm ci`: npm neither repairs a partial package nor recompiles for another
  // Node.
  rmSync(join(root, "node_modules"), { recursive: true, force: true });
  const heartbeat = setInterval(() => say("still installing"), 15_000);
  const result = await npm(args, { capture: true, cwd: folder });
  clearInterval(heartbeat);
  if (result.signal) throw new SetupError(`npm install was stopped by ${result.signal}.`);
  if (result.error || result.code !== 0) throw new SetupError(explainInstall(result));
  if (folder !== root) {
    renameSync(join(folder, "node_modules"), join(root, "node_modules"));
    rmSync(folder, { recursive: true });
  }
  writeStamp(installStamp, key);
  say("installed");
}

/** Writes a manifest with only these packages, and returns its folder. npm trims the lockfile. */
function writeManifestOf(packages) {
  const folder = join(root, ".partial-install");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const { name, version, devDependencies, allowScripts } = readJson("package.json");
  const wanted = Object.fromEntries(packages.map((each) => [each, devDependencies[each]]));
  const manifest = { name, version, devDependencies: wanted, allowScripts };
  const lock = readJson("package-lock.json");
  lock.packages[""] = manifest;
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify(lock));
  copyFileSync(join(root, ".npmrc"), join(folder, ".npmrc"));
  return folder;
}

function explainInstall({ error, output }) {
  if (error?.code === "ENOENT") {
    return "npm was not found. It comes with Node.js: install Node.js 20.19 or newer and make sure `npm` is in PATH.";
  }
  const tail = output.trimEnd().split("\n").slice(-40).join("\n");
  let advice =
    "npm install failed; its last lines are above. Fix the cause, then run the same command again.";
  // The compiler is checked first: its download attempts also leave network errors in the output.
  if (/gyp ERR!/.test(output)) {
    advice =
      "better-sqlite3 could not be compiled. Install python3, make and a C++ compiler (Debian: apt-get install python3 make g++), or use Node.js 22.13 or newer, which needs no compiler; then run the same command again.";
  } else if (/ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT/.test(output)) {
    advice =
      "The npm registry could not be reached. Check the network, a proxy, and `npm config get registry`; then run the same command again.";
  } else if (/ENOSPC/.test(output)) {
    advice = "The disk is full. Free some space, then run the same command again.";
  }
  return `${error ? error.message : tail}\n\n${advice}`;
}

function checkLockfile() {
  const manifest = readJson("package.json");
  const locked = readJson("package-lock.json").packages[""];
  for (const kind of ["dependencies", "devDependencies", "peerDependencies"]) {
    const wanted = JSON.stringify(Object.entries(manifest[kind] ?? {}).sort());
    if (wanted !== JSON.stringify(Object.entries(locked[kind] ?? {}).sort())) {
      throw new SetupError(
        `package-lock.json does not match ${kind} of package.json. Run \`npm install\`, and commit both files.`,
      );
    }
  }
}

// ---- build

function buildKey() {
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join("src", name));
  const rules = ["tsconfig.json", "tsconfig.build.json", "package.json"];
  return hash([...sources.sort(), ...rules], installKey());
}

function isBuilt() {
  return existsSync(join(root, "dist")) && readStamp(buildStamp) === buildKey();
}

async function compile() {
  say("building");
  // Built into another folder and then renamed, so that no output of a removed source remains and a
  // failed build keeps the old output.
  const [next, old, dist] = ["dist.next", "dist.old", "dist"].map((name) => join(root, name));
  const key = buildKey();
  const clear = (...folders) => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  };
  clear(next, old);
  const args = [tool("typescript", "tsc"), "-p", "tsconfig.build.json", "--outDir", next];
  const { code, output } = await run(process.execPath, args, { capture: true });
  if (code !== 0)
    throw new SetupError(`${output.trimEnd()}\n\nThe build failed; the errors are above.`);
  rmSync(buildStamp, { force: true });
  if (existsSync(dist)) renameSync(dist, old);
  renameSync(next, dist);
  clear(old);
  writeStamp(buildStamp, key);
  say("built");
}

// ---- stamps

function hash(files, extra) {
  const sum = createHash("sha256").update(extra);
  for (const file of files) sum.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  return sum.digest("hex");
}

function readStamp(path) {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

function writeStamp(path, key) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, key);
}

function readJson(name) {
  return JSON.parse(readFileSync(join(root, name), "utf8"));
}
