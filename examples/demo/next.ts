// What the demo suggests afterwards: commands and files that are there, in a clone of the repository or in an installed package.

import { existsSync } from "node:fs";
import { DOCS } from "../../src/core/docs.ts";

const IN_CLONE = `
Next:
  npm test             every suite, on real processes
  npm run bench        what a lease costs
  less docs/walk.md    how it works, file by file`;

const INSTALLED = `
Next:
  tenure --help           every command
  tenure sim settlement   the same story as a page to look at
  ${DOCS}/guarantees.md`;

export function nextSteps(): string {
  const isClone = existsSync(new URL("../../docs", import.meta.url));
  return isClone ? IN_CLONE : INSTALLED;
}
