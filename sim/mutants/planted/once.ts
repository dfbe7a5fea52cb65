// Bugs in scheduled runs (src/once).

import type { Mutant } from "../mutant.ts";

export const ONCE_MUTANTS: readonly Mutant[] = [
  {
    name: "once: existing markers are not checked",
    file: "src/once/markers.ts",
    find: `    const taken = toTaken(markers, occurrence);
    if (taken !== undefined) return taken;`,
    replace: "",
  },
  {
    name: "once: the marker is removed after the run",
    file: "src/once/once.ts",
    find: "if (!this.#hasBegun) await marked.undo();",
    replace: "await marked.undo();",
  },
  {
    name: "once: a scheduled time that was run may run again",
    file: "src/once/markers.ts",
    find: "toTime(marker) >= occurrence.atMs",
    replace: "toTime(marker) > occurrence.atMs",
  },
  {
    name: "once: the later of two markers is replaced",
    file: "src/once/markers.ts",
    find: "toTime(a) - toTime(b)",
    replace: "toTime(b) - toTime(a)",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a scheduled time is never too late",
    file: "src/once/occurrence.ts",
    find: "wallNow > atMs + toLatestMs({ windowMs })",
    replace: "wallNow > atMs + 1e9 * toLatestMs({ windowMs })",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: lateness is not checked again after the marker is written",
    file: "src/once/once.ts",
    find: "if (!this.#isLate()) return answer;",
    replace: "if (answer.kind) return answer;",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: the work starts without checking the lease",
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
    name: "once: a marker without a run is not removed",
    file: "src/once/markers.ts",
    find: "if (!isMarked) await session.end();",
    replace: "",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a waiting caller does not check whether the scheduled time was taken",
    file: "src/once/wait-for-key.ts",
    find: "if (taken !== undefined) return taken;",
    replace: "",
    test: "src/once/once.test.ts",
  },
];
