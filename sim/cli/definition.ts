// The options of `npm run sim`, as data for the parser and the help text of src/cli.

import type { CommandDefinition } from "../../src/cli/definitions/definition.ts";

/** A copy of the names, so that the scenes themselves are loaded only when one is played. */
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
  summary: "Run the library on virtual time under faults, and check its invariants.",
  about: [
    "Without SCENE: runs seeds. Each seed is one run of a small simulated world: programs with the library's real code, a store, resources with and without guards, skewed clocks, pauses, crashes and an unreliable network. Every event is checked against the invariants. On the same version, the same seed always gives the same run. Exit code 1 if a run breaks an invariant or proves too little; the first failure is shrunk to a short replay command and its timeline.",
    `With SCENE: plays an outage, once with a plain lock and once with Tenure. Prints the events and the numbers, and writes a self-contained HTML page with the timeline. SCENE is one of ${SCENE_NAMES.join(", ")}; \`scenes\` lists them. Exit code 1 if a scene does not have the expected result.`,
  ],
  arguments: [{ name: "SCENE", required: false, oneOf: [...SCENE_NAMES, "scenes"] }],
  options: [
    { name: "seeds", value: "RANGE", summary: "The seeds to run. Default: 1..1000." },
    { name: "seed", value: "NUMBER", summary: "Run this seed and print its timeline." },
    {
      name: "store",
      value: "NAME",
      summary:
        "The store: memory, sqlite, postgres, redis, etcd or zookeeper. The store's real code runs on a model of its backend. Default: memory.",
    },
    {
      name: "jobs",
      value: "COUNT",
      summary: "The number of threads that run seeds. Default: the number of cores.",
    },
    { name: "twice", summary: "Run every seed twice and compare the traces." },
    { name: "fail-fast", summary: "Stop at the first seed that fails." },
    { name: "no-shrink", summary: "Do not shrink a failure." },
    { name: "all", summary: "With --seed: include requests in the timeline." },
    {
      name: "without",
      value: "FAULTS",
      summary: "With --seed: leave out these kinds of faults, separated by commas.",
    },
    {
      name: "keep",
      value: "NUMBERS",
      summary: "With --seed: keep only these planned faults, by their index in the plan.",
    },
    { name: "programs", value: "COUNT", summary: "With --seed: the number of programs." },
    { name: "calm-at", value: "MS", summary: "With --seed: end the faults at this time." },
    {
      name: "out",
      value: "FILE",
      summary: "With SCENE: the file for the page. Default: ./tenure-SCENE.html.",
    },
    { name: "no-page", summary: "With SCENE: write no page." },
    { name: "force", summary: "With SCENE: overwrite a file that is not such a page." },
  ],
  examples: [
    { line: "npm run sim -- --seeds 1..1000", does: "a thousand runs, in a few minutes" },
    { line: "npm run sim -- --seed 42", does: "the timeline of one run" },
    {
      line: "npm run sim -- settlement",
      does: "how a batch is paid twice, and how a guard prevents it",
    },
  ],
  exits: ["no"],
};
