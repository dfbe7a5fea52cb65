// Goal: an unsupported version of a library is recognised, and a supported or unknown one is never rejected. Method: packages
// written into temp folders and resolved by Node itself.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { checkLibrary, type SupportedLibrary } from "./libraries.ts";

const base = mkdtempSync(join(tmpdir(), "tenure-libraries-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));
let folders = 0;

/** An application with this version of a library; the package hides its package.json, as node-cron does. */
function application(name: string, version: string): string {
  folders += 1;
  const folder = join(base, String(folders));
  const files = join(folder, "node_modules", name, "dist");
  mkdirSync(files, { recursive: true });
  const manifest = { name, version, exports: { ".": { require: "./dist/index.cjs" } } };
  writeFileSync(join(files, "..", "package.json"), JSON.stringify(manifest));
  writeFileSync(join(files, "index.cjs"), "");
  return join(folder, "main.js");
}

const faultOf = (name: SupportedLibrary, ...versions: string[]): string | undefined =>
  checkLibrary(
    name,
    versions.map((version) => application(name, version)),
  ).fault;

test.each<[SupportedLibrary, string]>([
  ["node-cron", "3.0.3"],
  ["node-cron", "4.3.9"],
  ["node-cron", "5.0.0"],
  ["ioredis", "4.31.0"],
  ["pg", "8.6.0"],
  ["@nestjs/common", "8.4.7"],
])("%s %s is rejected, with the version found and the versions required", (name, version) => {
  const fault = faultOf(name, version) ?? "";
  expect(fault).toContain(`${name} ${version} is installed`);
  expect(fault).toMatch(/needs .+ \d+\.\d+ or newer, below \d+\.0\./);
});

test.each<[SupportedLibrary, string]>([
  ["node-cron", "4.4.1"],
  ["node-cron", "4.10.0"],
  ["pg", "8.23.1"],
  ["redis", "6.0.0-rc.1"],
])("%s %s is accepted", (name, version) => {
  expect(faultOf(name, version)).toBeUndefined();
});

test("one supported copy is enough, because it cannot be known which one the application imports", () => {
  expect(faultOf("croner", "4.0.0", "11.0.0")).toBeUndefined();
});

test("a library that cannot be found is neither supported nor unsupported", () => {
  const nowhere = [join(base, "nothing", "main.js")];
  expect(checkLibrary("postgres", nowhere)).toEqual({ isFound: false, fault: undefined });
});

test("the versions are those of the peer ranges in package.json", () => {
  const url = new URL("../../../package.json", import.meta.url);
  const { peerDependencies } = JSON.parse(readFileSync(url, "utf8")) as {
    peerDependencies: Record<SupportedLibrary, string>;
  };
  for (const [name, range] of Object.entries(peerDependencies)) {
    const [, from = "", below = ""] = /^>=(\d+\.\d+) <(\d+)$/.exec(range) ?? [];
    const fault = faultOf(name as SupportedLibrary, "0.0.1");
    expect(fault, name).toContain(`needs ${name} ${from} or newer, below ${below}.0.`);
  }
});
