// Goal: a bundled program explains correctly how to install a missing driver. Method: bundle a
// program with esbuild into a folder without node_modules, run it, install the driver there (as a
// symbolic link) and run it again.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "tenure-bundled-"));
const program = join(folder, "program.mjs");

beforeAll(async () => {
  writeFileSync(join(folder, "package.json"), "{}");
  await build({
    stdin: {
      contents: `import { connect } from "./src/index.ts";
        await connect(process.argv[2]).catch((error) => console.log(error.message));`,
      resolveDir: root,
    },
    bundle: true,
    platform: "node",
    format: "esm",
    outfile: program,
    logLevel: "error",
  });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a bundle asks to install a missing driver where it runs, and then finds it there", async () => {
  const drivers = [
    ["redis://127.0.0.1:1", "ioredis", "redisStore({ client })"],
    ["postgres://u@127.0.0.1:1/app", "pg", "postgresStore({ client })"],
  ] as const;
  for (const [url, name, alternative] of drivers) {
    const { stdout: before } = await run(process.execPath, [program, url]);
    expect(before).toMatch(/^No (Redis|PostgreSQL) library could be loaded .*npm install/);
    expect(before).toContain("A bundler does not include it: install it where the bundle runs");
    expect(before).toContain(alternative);
    mkdirSync(join(folder, "node_modules"), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
    const { stdout: after } = await run(process.execPath, [program, url]);
    expect(after).toMatch(/ECONNREFUSED/);
  }
});
