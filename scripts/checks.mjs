// The static checks: types, lint and format, dead code, and the package as its users will get it.
// One line each; the output of a check is shown only when it fails. `npm run check` runs this file alone.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { npm, root, run, seconds, tool } from "./run.mjs";

const node = (...args) => run(process.execPath, args, { capture: true });

/** Runs every check and prints the lines; gives back the names of those that failed. */
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
  // Packed once, aside: what is judged is the very archive a user would install.
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
