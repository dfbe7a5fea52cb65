// In scheduled runs.

import type { Mutant } from "../mutant.ts";

export const ONCE_MUTANTS: readonly Mutant[] = [
  {
    name: "once: claims are not looked at",
    file: "src/once/marks.ts",
    find: `    const taken = takenBy(marks, due);
    if (taken !== undefined) return taken;`,
    replace: "",
  },
  {
    name: "once: the claim ends with the run",
    file: "src/once/once.ts",
    find: "if (!this.#hasBegun) await claim.giveBack();",
    replace: "await claim.giveBack();",
  },
  {
    name: "once: a fire that was run may run again",
    file: "src/once/marks.ts",
    find: "fireOf(mark) >= due.atMs",
    replace: "fireOf(mark) > due.atMs",
  },
  {
    name: "once: the later of two claims is replaced",
    file: "src/once/marks.ts",
    find: "fireOf(a) - fireOf(b)",
    replace: "fireOf(b) - fireOf(a)",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a fire is never late",
    file: "src/once/fire.ts",
    find: "wallNow > due.atMs + latestMs(due)",
    replace: "wallNow > due.atMs + 1e9 * latestMs(due)",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: lateness is asked before the claim only",
    file: "src/once/once.ts",
    find: "if (!isLate(this.#due, this.#clock.wallNow())) return answer;",
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
    file: "src/once/marks.ts",
    find: "if (!marked) await left.end();",
    replace: "",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: whoever waits does not look whether the fire is taken",
    file: "src/once/line.ts",
    find: "if (taken !== undefined) return taken;",
    replace: "",
    test: "src/once/once.test.ts",
  },
];
