// The layers of the source tree: which folder may import what. This is the only copy of the table.
// The tidy test checks every import against it. The import rules in biome.jsonc, which editors
// show, are generated from it.

/**
 * Paths below src/ (or sim/). A path that ends in "/" allows a folder, one that ends in ".ts" a
 * file.
 */
export interface Layer {
  readonly may: readonly string[];
  /** Exceptions to `may`: forbidden even where a folder is allowed. */
  readonly never?: readonly string[];
  /** What the editor says about a forbidden import. */
  readonly advice: string;
}

/** Time and randomness come only through Clock and Random (src/async/clock.ts). */
const CLOCK_AND_RANDOM: readonly string[] = [
  "node:timers",
  "node:perf_hooks",
  "node:crypto",
  "node:process",
];

const PURE = ["core/", "async/"];
const CONTRACT = [...PURE, "stores/contract.ts"];

/** By folder in src/. "" stands for the files directly in src/, and "sim" for the simulator. */
export const LAYERS: Readonly<Record<string, Layer>> = {
  core: { may: ["core/"], advice: "core/ is pure and imports nothing else." },
  async: {
    may: [...PURE, "node:async_hooks"],
    advice: "async/ imports core/ only.",
  },
  clients: {
    may: [...PURE, "clients/shared/", "node:"],
    never: CLOCK_AND_RANDOM,
    advice: "A client imports core/, async/ and clients/shared/. Clock and Random are passed in.",
  },
  stores: {
    may: [
      ...CONTRACT,
      "stores/queue-policy.ts",
      "stores/shared/",
      "stores/record/",
      "clients/shared/",
      "node:",
    ],
    never: CLOCK_AND_RANDOM,
    advice: "A store imports core/, async/, its own client and the store contract.",
  },
  guards: {
    may: [...PURE, "guards/guard.ts", "guards/shared/", "clients/shared/", "node:"],
    never: CLOCK_AND_RANDOM,
    advice: "A guard imports core/, async/, its own client and guards/guard.ts.",
  },
  holder: {
    may: [...CONTRACT, "holder/"],
    advice: "holder/ knows stores by their contract only, and guards not at all.",
  },
  election: {
    may: [...CONTRACT, "holder/", "election/"],
    advice: "election/ imports core/, async/, the store contract and holder/.",
  },
  once: {
    may: [...CONTRACT, "holder/", "once/"],
    advice: "once/ imports core/, async/, the store contract and holder/.",
  },
  schedulers: {
    may: [
      ...CONTRACT,
      "holder/",
      "once/",
      "clients/shared/libraries.ts",
      "runtime/system.ts",
      "connect.ts",
      "tenure.ts",
      "schedulers/run-options.ts",
    ],
    advice: "A scheduler adapter uses Tenure through its public parts.",
  },
  runtime: {
    may: [...PURE, "runtime/", "node:"],
    advice: "runtime/ provides the real clock, randomness and process to the other layers.",
  },
  testing: {
    may: [...CONTRACT, "guards/guard.ts", "testing/", "node:assert"],
    advice: "testing/ is published: it knows contracts only, and no test runner.",
  },
  cli: {
    may: ["", "node:"],
    never: ["testing/", "node:timers", "node:perf_hooks", "node:crypto"],
    advice: "cli/ takes clock and randomness from runtime/.",
  },
  "": {
    may: ["", "node:"],
    never: ["testing/", "cli/", ...CLOCK_AND_RANDOM],
    advice: "The files in src/ wire the layers together; cli/ and testing/ stay outside.",
  },
  sim: {
    may: ["", "sim/", "node:"],
    never: ["cli/", "runtime/", "testing/", ...CLOCK_AND_RANDOM],
    advice: "Only sim/host, sim/cli, sim/mutants and sim/test use the real clock and process.",
  },
};

/** Folders whose subfolders are separate parts: one store may not import another. */
export const DIVIDED: readonly string[] = ["clients", "stores", "guards", "schedulers"];

/** The client that a store or guard uses, where it is not the one of the same name. */
export const CLIENT_OF: Readonly<Record<string, string>> = { file: "sqlite" };

/**
 * Import rules for biome.jsonc, one override for each layer that the linter's patterns can express.
 */
export function biomeOverrides(): object[] {
  return Object.entries(LAYERS)
    .filter(([folder]) => folder !== "" && folder !== "sim" && folder !== "cli")
    .map(([folder, layer]) => ({
      includes: [`src/${folder}/**`, "!src/**/*.test.ts"],
      linter: {
        rules: {
          style: {
            noRestrictedImports: {
              level: "error",
              options: { patterns: [{ group: listDenied(folder, layer), message: layer.advice }] },
            },
          },
        },
      },
    }));
}

/**
 * Patterns in the syntax of .gitignore. A later pattern that starts with "!" allows what an earlier
 * one denies.
 */
function listDenied(own: string, { may, never = [] }: Layer): string[] {
  const folders = Object.keys(LAYERS).filter((folder) => folder !== "");
  const isOpen = (folder: string): boolean =>
    folder === own ||
    may.includes(`${folder}/`) ||
    // These patterns cannot express "the part of the same name"; the tidy test checks it.
    (folder === "clients" && (own === "stores" || own === "guards"));
  const denied = folders.filter((folder) => !isOpen(folder)).map((folder) => `**/${folder}/**`);
  const again = may.filter((path) => path.endsWith(".ts") && path.includes("/"));
  const node = may.includes("node:") ? never : ["node:*", "node:*/**"];
  const nodeAgain = may.filter((path) => path.startsWith("node:") && path !== "node:");
  return [
    ...denied,
    ...again.map((path) => `!**/${path}`),
    ...node.filter((name) => name.startsWith("node:")),
    ...nodeAgain.map((name) => `!${name}`),
  ];
}
