// Goal: `import "tenure"` costs no more time than importing one client library. Method: the built
// package and ioredis are imported alternately, each in a process of its own.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const ROUNDS = 7;

test("importing tenure takes no longer than importing ioredis", () => {
  const rounds = Array.from({ length: ROUNDS }, () => ({
    own: importMs("tenure"),
    theirs: importMs("ioredis"),
  }));
  // The fastest round of each: other work on this machine can only add time.
  const own = Math.min(...rounds.map((round) => round.own));
  const theirs = Math.min(...rounds.map((round) => round.theirs));
  console.log(`import: tenure ${own.toFixed(1)} ms, ioredis ${theirs.toFixed(1)} ms`);
  expect(own).toBeLessThanOrEqual(theirs);
});

function importMs(name: string): number {
  const script = `const at = performance.now(); await import("${name}"); console.log(performance.now() - at);`;
  // Inside the package, its own name resolves to its build.
  const args = ["--input-type=module", "--eval", script];
  return Number(execFileSync(process.execPath, args, { cwd: root, encoding: "utf8" }));
}
