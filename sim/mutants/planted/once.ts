// Bugs in scheduled runs (src/once).

import type { Mutant } from "../mutant.ts";

export const ONCE_MUTANTS: readonly Mutant[] = [
  {
    name: "once: existing markers are not checked",
    file: "src/once/marks.ts",
    find: `    const taken = takenBy(marks, due);
    if (taken !== undefined) return taken;`,
    replace: "",
  },
  {
    name: "once: the marker is removed after the run",
    file: "src/once/once.ts",
    find: "if (!this.#hasBegun) await claim.giveBack();",
    replace: "await claim.giveBack();",
  },
  {
    name: "once: a scheduled time that was run may run again",
    file: "src/once/marks.ts",
    find: "fireOf(mark) >= due.atMs",
    replace: "fireOf(mark) > due.atMs",
  },
  {
    name: "once: the later of two markers is replaced",
    file: "src/once/marks.ts",
    find: "fireOf(a) - fireOf(b)",
    replace: "fireOf(b) - fireOf(a)",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a scheduled time is never too late",
    file: "src/once/fire.ts",
    find: "wallNow > due.atMs + latestMs(due)",
    replace: "wallNow > due.atMs + 1e9 * latestMs(due)",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: lateness is not checked again after the marker is written",
    file: "src/once/once.ts",
    find: "if (!isLate(this.#due, this.#clock.wallNow())) return answer;",
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
    file: "src/once/marks.ts",
    find: "if (!marked) await left.end();",
    replace: "",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a waiting caller does not check whether the scheduled time was taken",
    file: "src/once/line.ts",
    find: "if (taken !== undefined) return taken;",
    replace: "",
    test: "src/once/once.test.ts",
  },
];
