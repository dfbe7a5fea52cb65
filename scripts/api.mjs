// `npm run api`: writes the API reports in api/, or compares them with --check. The first run
// installs API Extractor into api/node_modules, because nothing else needs it.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { endLike, npm, root, run } from "./run.mjs";

const folder = join(root, "api");
const { devDependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
const isInstalled = Object.entries(devDependencies).every(([name, version]) => {
  const manifest = join(folder, "node_modules", name, "package.json");
  return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).version === version;
});
if (!isInstalled) {
  const args = ["install", "--prefix", folder, "--no-save", "--ignore-scripts"];
  const { code, output } = await npm(args, { capture: true });
  if (code !== 0) {
    console.error(`${output.trimEnd()}\n\nAPI Extractor could not be installed. See above.`);
    process.exit(1);
  }
}
endLike(await run(process.execPath, [join(folder, "report.mjs"), ...process.argv.slice(2)]));
