// Goal: documents that lead through the code name only files and symbols that exist. Method: take
// every code span that looks like a path, a function or a type, and look it up in the repository.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const FOLDERS = ["src", "sim", "test", "scripts", "bench", "examples"];

const documents = [
  "docs/walk.md",
  "docs/simulator.md",
  "CONTRIBUTING.md",
  "sim/README.md",
  ...readdirSync(join(root, "docs/adr")).map((name) => `docs/adr/${name}`),
].filter((path) => existsSync(join(root, path)));

/** Every word of the code, and of the packages that documents may mention. */
const words = new Set(
  FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(ts|mjs|sql)$/.test(name) && !name.includes("node_modules"))
      .flatMap((name) => readFileSync(join(root, folder, name), "utf8").match(/[A-Za-z_$][\w$]*/g)),
  ),
);

/** The paths and symbols in a text that do not exist. */
function unknownNames(text: string): string[] {
  const spans = [...text.replace(/^```[\s\S]*?^```/gm, "").matchAll(/`([^`\n]+)`/g)];
  return spans.map(([, span = ""]) => span).filter((span) => !isKnown(span));
}

function isKnown(span: string): boolean {
  if (new RegExp(`^(${FOLDERS.join("|")}|docs)/[\\w./-]+$`).test(span))
    return existsSync(join(root, span));
  // A function call, a private member or a type; anything else may be a command, an option or a
  // value of another system.
  const [, symbol] = /^(?:[\w$]+\.)*#?([\w$]+)\(\)$|^#([\w$]+)$/.exec(span) ?? [];
  return symbol === undefined || words.has(symbol);
}

test("the check finds names that do not exist, and accepts those that do", () => {
  const text =
    "`src/core/nothing.ts` `src/core/token.ts` `parseToken()` `parse" + "Nothing()` `npm test`";
  expect(unknownNames(text)).toEqual(["src/core/nothing.ts", `parse${"Nothing"}()`]);
});

test.each(documents)("%s names only files and symbols that exist", (path) => {
  expect(unknownNames(readFileSync(join(root, path), "utf8"))).toEqual([]);
});
