// Cases for better-sqlite3. It is compiled for each version of Node, which takes about a minute, so
// the binaries are cached.
import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Case, type Lab, root } from "../lab.ts";
import { npm, type Project } from "../project.ts";

const CACHE = join(root, "node_modules", ".cache", "installs");

/** Version 13 needs Node 22 or newer, so it runs on another Node. It contains its binaries. */
const VERSIONS = [
  { version: "11", node: undefined },
  { version: "12", node: undefined },
  { version: "13", node: "24" },
] as const;

export const SQLITE: readonly Case[] = [
  ...VERSIONS.map(({ version, node: major }) => ({
    group: "better-sqlite3",
    name: version,
    run: async (lab: Lab) => {
      const project = await lab.project({ packages: [`better-sqlite3@${version}`] });
      const node = major === undefined ? undefined : await installNode(lab, major);
      await addBinary(project);
      await project.must(node?.binary ?? process.execPath, ["sqlite.mjs"]);
      const on = node === undefined ? process.version : node.version;
      return `better-sqlite3 ${project.readVersion("better-sqlite3")} on Node ${on}`;
    },
  })),
  {
    group: "better-sqlite3",
    name: "10",
    run: async (lab) => {
      const packages = ["better-sqlite3@10"];
      const project = await lab.project({ packages, legacyPeerDeps: true });
      // Rejected before its binary is loaded, so nothing has to be compiled.
      const { code, output } = await project.exec(process.execPath, ["sqlite.mjs"]);
      const isNamed = /better-sqlite3 10\.\S+ is installed, .* 11\.0 or newer.*/.exec(output)?.[0];
      if (code === 0 || isNamed === undefined) throw new Error(`It was not rejected:\n${output}`);
      return `rejected: ${isNamed}`;
    },
  },
];

interface Node {
  readonly binary: string;
  readonly version: string;
}

/** Installs the binary of another Node version from npm. */
async function installNode(lab: Lab, major: string): Promise<Node> {
  const name = `node-${process.platform}-${process.arch}`;
  const project = await lab.project({ packages: [`${name}@${major}`] });
  return { binary: project.bin(name, "bin/node"), version: `v${project.readVersion(name)}` };
}

/** Adds the binary, which npm did not compile because projects are installed without scripts. */
async function addBinary(project: Project): Promise<void> {
  const folder = join(project.folder, "node_modules", "better-sqlite3");
  if (existsSync(join(folder, "prebuilds"))) return;
  const version = project.readVersion("better-sqlite3");
  const kept = join(CACHE, `better-sqlite3-${version}-${process.version}.node`);
  const binary = join(folder, "build", "Release", "better_sqlite3.node");
  if (existsSync(kept)) {
    mkdirSync(dirname(binary), { recursive: true });
    copyFileSync(kept, binary);
    return;
  }
  await npm(["rebuild", "better-sqlite3", "--ignore-scripts=false"], { cwd: project.folder });
  mkdirSync(CACHE, { recursive: true });
  copyFileSync(binary, kept);
}
