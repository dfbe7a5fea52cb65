// In scheduled runs.

import type { Mutant } from "../mutant.ts";

export const ONCE_MUTANTS: readonly Mutant[] = [
  {
    name: "once: claims are not looked at",
    file: "src/once/markers.ts",
    find: `    const taken = toTaken(markers, occurrence);
    if (taken !== undefined) return taken;`,
    replace: "",
  },
  {
    name: "once: the claim ends with the run",
    file: "src/once/once.ts",
    find: "if (!this.#hasBegun) await marked.undo();",
    replace: "await marked.undo();",
  },
  {
    name: "once: a fire that was run may run again",
    file: "src/once/markers.ts",
    find: "toTime(marker) >= occurrence.atMs",
    replace: "toTime(marker) > occurrence.atMs",
  },
  {
    name: "once: the later of two claims is replaced",
    file: "src/once/markers.ts",
    find: "toTime(a) - toTime(b)",
    replace: "toTime(b) - toTime(a)",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a fire is never late",
    file: "src/once/occurrence.ts",
    find: "wallNow > atMs + toLatestMs({ windowMs })",
    replace: "wallNow > atMs + 1e9 * toLatestMs({ windowMs })",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: lateness is asked before the claim only",
    file: "src/once/once.ts",
    find: "if (!isLate(this.#occurrence, this.#clock.wallNow())) return answer;",
    replace: "if (answer.kind) return answer;",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: runs without a look at the lease behind the claim",
    file: "src/once/once.ts",
    find: `      const value = await lease.run((held) => {
        this.#hasBegun = true;
        return work(held);
      });`,
    replace: `      this.#hasBegun = true;
      const value = await work(lease);`,
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a claim without a run is left behind",
    file: "src/once/markers.ts",
    find: "if (!isMarked) await session.end();",
    replace: "",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: whoever waits does not look whether the fire is taken",
    file: "src/once/wait-for-key.ts",
    find: "if (taken !== undefined) return taken;",
    replace: "",
    test: "src/once/once.test.ts",
  },
];
