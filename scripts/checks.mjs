// The static checks: types, lint and format, dead code, and the package as users install it. Each
// check prints one line; its output is shown only if it fails. `npm run check` runs only this file.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { npm, root, run, seconds, tool } from "./run.mjs";

const node = (...args) => run(process.execPath, args, { capture: true });

/** Runs every check, prints the lines, and returns the names of the checks that failed. */
export async function runChecks() {
  const failed = [];
  const check = async (name, work) => {
    const startedAt = performance.now();
    const { code, output, error } = await work();
    const ok = code === 0;
    console.log(`${ok ? "ok  " : "FAIL"}  ${name.padEnd(34)} ${seconds(startedAt).padStart(7)}`);
    if (ok) return;
    failed.push(name);
    console.log((error?.message ?? output).trimEnd());
  };
  await check("types (tsc)", () => node(tool("typescript", "tsc"), "--noEmit"));
  await check("lint and format (biome)", () =>
    node(tool("@biomejs/biome", "biome"), "check", "--error-on-warnings", "--colors=off"),
  );
  await check("dead code (knip)", () => node(tool("knip"), "--no-progress"));
  await check("public API (api-extractor)", () => node(join(root, "scripts/api.mjs"), "--check"));
  // Packed once into a temporary folder: the checks use the archive that a user would install.
  const folder = mkdtempSync(join(tmpdir(), "tenure-pack-"));
  try {
    await check("package packs (npm pack)", () =>
      npm(["pack", "--ignore-scripts", "--pack-destination", folder], { capture: true }),
    );
    const archive = readdirSync(folder).map((name) => join(folder, name))[0];
    if (archive === undefined) return failed;
    await check("package is well formed (publint)", () =>
      node(tool("publint"), archive, "--strict"),
    );
    await check("types resolve for users (attw)", () =>
      node(tool("@arethetypeswrong/cli", "attw"), archive, "--profile", "esm-only"),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return failed;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  process.exitCode = (await runChecks()).length === 0 ? 0 : 1;
}
