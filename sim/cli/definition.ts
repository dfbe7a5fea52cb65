// The options of `npm run sim`, as data for the parser and the help text of src/cli.

import type { CommandDefinition } from "../../src/cli/definitions/definition.ts";

/** Listed here so that the scenes themselves are loaded only when one is played. */
export const SCENE_NAMES: readonly string[] = [
  "settlement",
  "leader-gap",
  "stale-scheduler",
  "paused-leader",
  "clock-jump",
];

export const SIM: CommandDefinition = {
  name: "sim",
  calledAs: "npm run sim --",
  summary: "Run the library on virtual time under faults, and judge it.",
  about: [
    "Without SCENE: each seed is a day of a small world: programs with this very code, a store, resources with and without guards, skewed clocks, pauses, crashes and a bad network. Every event is checked against the invariants. The same seed gives the same day on the same version. Exit code 1 when an invariant was broken or a day proved nothing; the first such seed is shrunk to a short command and its timeline.",
    `With SCENE: plays a story of an outage, once as it happened and once with Tenure, prints what happened and the numbers, and writes a page with the timeline drawn, which needs nothing but a browser. SCENE is one of ${SCENE_NAMES.join(", ")}; \`scenes\` lists them. Exit code 1 when a story does not come out as it must.`,
  ],
  arguments: [{ name: "SCENE", required: false, oneOf: [...SCENE_NAMES, "scenes"] }],
  runs: "no",
  options: [
    { name: "seeds", value: "RANGE", summary: "Which seeds to run. Default: 1..1000." },
    { name: "seed", value: "NUMBER", summary: "Run this one and print its timeline." },
    {
      name: "store",
      value: "NAME",
      summary:
        "Which store: memory, sqlite, postgres, redis, etcd or zookeeper. Each runs the store's own code on a model of its backend. Default: memory.",
    },
    {
      name: "jobs",
      value: "COUNT",
      summary:
        "How many seeds run at a time, each in a thread of its own. Default: one for each core; more only take time from each other.",
    },
    { name: "twice", summary: "Run every seed twice, and compare the two days." },
    { name: "fail-fast", summary: "End with the first seed that is not green." },
    { name: "no-shrink", summary: "Do not look for the smallest form of a failure." },
    { name: "all", summary: "With --seed: the timeline has every request, too." },
    {
      name: "without",
      value: "FAULTS",
      summary: "With --seed: leave these kinds of faults out, separated by commas.",
    },
    {
      name: "keep",
      value: "NUMBERS",
      summary: "With --seed: of the planned faults only these, by their place in the plan.",
    },
    { name: "programs", value: "COUNT", summary: "With --seed: so many programs." },
    { name: "calm-at", value: "MS", summary: "With --seed: the faults end here." },
    {
      name: "out",
      value: "FILE",
      summary: "With SCENE: where the page goes. Default: ./tenure-SCENE.html.",
    },
    { name: "no-page", summary: "With SCENE: print only." },
    { name: "force", summary: "With SCENE: write over a file that is not such a page." },
  ],
  examples: [
    { line: "npm run sim -- --seeds 1..1000", does: "a thousand days, some minutes at most" },
    { line: "npm run sim -- --seed 42", does: "one day, told line by line" },
    { line: "npm run sim -- settlement", does: "how a batch is paid twice, and how it is not" },
  ],
  exits: ["no"],
};
