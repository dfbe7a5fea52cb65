// Cases for `npm pack`: a clone that was never built gives the complete package, and its README has
// no relative links.
import { cpSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type Case, root } from "../lab.ts";
import { npm } from "../project.ts";

const EXCLUDED = /(?:^|\/)(?:node_modules|dist[.\w]*|\.git|coverage)$/;

export const PACKING: readonly Case[] = [
  {
    group: "packing",
    name: "an unbuilt clone",
    run: async (lab) => {
      const folder = join(lab.folder, "clone");
      cpSync(root, folder, { recursive: true, filter: (path) => !EXCLUDED.test(path) });
      // The case tests that packing builds. A new installation would take minutes.
      symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
      const before = readFileSync(join(folder, "README.md"), "utf8");
      const output = await npm(["pack", "--dry-run", "--json"], { cwd: folder });
      if (!output.includes('"dist/index.js"')) throw new Error("The package has no dist/index.js.");
      if (readFileSync(join(folder, "README.md"), "utf8") !== before)
        throw new Error("The README of the clone has changed.");
      return "built by prepack; the README of the clone is unchanged";
    },
  },
  {
    group: "packing",
    name: "links of the README",
    run: async (lab) => {
      const { folder } = await lab.project({ packages: [] });
      const text = readFileSync(join(folder, "node_modules/tenure/README.md"), "utf8");
      const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
      const dead = targets.filter((target) => !/^(?:https:|#)/.test(target));
      if (dead.length > 0 || targets.length === 0)
        throw new Error(`Dead links: ${dead.join(", ")}`);
      return `${targets.length} links, none relative`;
    },
  },
];
