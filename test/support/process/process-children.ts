// Starts the workers of the process tests. After each test, even a failed one, all its workers are
// killed and its folders are removed.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach } from "vitest";
import { Child, type StartOptions } from "./child.ts";

export { Child, type StartOptions, type Told } from "./child.ts";

const DIST = fileURLToPath(new URL("../../../dist/index.js", import.meta.url));

export interface Crew {
  start(script: URL, settings: object, options?: StartOptions): Child;
  /** Creates a folder that is removed after the test. */
  folder(): string;
  /** Runs `work` after the test, when every worker is dead and before the folders are removed. */
  afterwards(work: () => void): void;
}

/** Call once at the top of a test file. */
export function crew(): Crew {
  if (!existsSync(DIST)) {
    throw new Error(
      `The workers use the built package, and ${DIST} is missing. Run npm run build.`,
    );
  }
  const children: Child[] = [];
  const folders: string[] = [];
  const endings: (() => void)[] = [];
  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => child.kill()));
    for (const work of endings.splice(0).reverse()) work();
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  });
  return {
    start: (script, settings, options = {}) => {
      const child = new Child(script, settings, options);
      children.push(child);
      return child;
    },
    folder: () => {
      const folder = mkdtempSync(join(tmpdir(), "tenure-process-"));
      folders.push(folder);
      return folder;
    },
    afterwards: (work) => endings.push(work),
  };
}
