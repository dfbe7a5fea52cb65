// Every command of `tenure` as data. Parsing, help, shell completion, the manual page and the tests are made from this and
// from nothing else. The order is the order in which people meet them.

import type { ExitName } from "./exit-codes.ts";
import { GUARD } from "./guard-definition.ts";

export interface OptionDefinition {
  readonly name: string;
  readonly short?: string;
  /** What the value is called in help; absent for a switch. */
  readonly value?: string;
  readonly summary: string;
}

export interface ArgumentDefinition {
  readonly name: string;
  readonly required: boolean;
  /** The words it may be, where there are only few. */
  readonly oneOf?: readonly string[];
}

export interface CommandDefinition {
  readonly name: string;
  /** How messages and help call the command. @default `tenure NAME` */
  readonly calledAs?: string;
  readonly summary: string;
  /** Paragraphs for --help and the manual page. */
  readonly about: readonly string[];
  readonly arguments: readonly ArgumentDefinition[];
  /** Whether `-- command arguments` may follow, or must. */
  readonly runs: "no" | "may" | "must";
  readonly options: readonly OptionDefinition[];
  readonly examples: readonly { readonly line: string; readonly does: string }[];
  /** Codes of its own, besides ok, usage and failed, which every command may end with. */
  readonly exits: readonly ExitName[];
}

/** What a user types to run the command. */
export function invocation(definition: CommandDefinition): string {
  return definition.calledAs ?? `tenure ${definition.name}`;
}

export const GLOBAL_OPTIONS: readonly OptionDefinition[] = [
  { name: "json", summary: "Answer in JSON, for programs." },
  { name: "help", short: "h", summary: "Show this." },
];

const STORE: OptionDefinition = {
  name: "store",
  value: "URL",
  summary:
    "Where leases are kept: sqlite:./file.db, postgres://..., redis://... Default: TENURE_STORE, else a file in the user's state folder.",
};

const TIMING: readonly OptionDefinition[] = [
  {
    name: "ttl",
    value: "TIME",
    summary: "How long a grant lasts without renewal. Default: 10s.",
  },
  {
    name: "renew-every",
    value: "TIME",
    summary: "How often it is renewed. Default: a third of the ttl or less.",
  },
  {
    name: "clock-error",
    value: "TIME",
    summary:
      "How far this machine and the store may disagree over one ttl. Default: 1 % of the ttl.",
  },
  {
    name: "round-trip",
    value: "TIME",
    summary:
      "The slowest healthy round trip to the store. Default: a tenth of the ttl, at most 1s.",
  },
  {
    name: "margin",
    value: "TIME",
    summary:
      "How long before the store's end the holder stops. Default: clock error plus round trip.",
  },
];

const KILL_AFTER: OptionDefinition = {
  name: "kill-after",
  value: "TIME",
  summary:
    "How long before its deadline the command gets SIGTERM, to end by itself before SIGKILL. Default: a fifth of the ttl, at most 10s.",
};

const HIDE_STORE: OptionDefinition = {
  name: "hide-store",
  summary:
    "Keep TENURE_STORE, and a password in it, out of the command's environment. A tenure inside the command then needs --store. Default: the command inherits it.",
};

export const COMMANDS: readonly CommandDefinition[] = [
  {
    name: "run",
    summary: "Hold a lease while a command runs.",
    about: [
      "Acquires RESOURCE, runs the command in a session and process group of its own, and releases when the whole group has ended. The command finds TENURE_RESOURCE, TENURE_TOKEN and TENURE_SAFE_UNTIL_MS in its environment; the last is in milliseconds of this host's CLOCK_MONOTONIC, as of its start.",
      "When the lease cannot be confirmed in time the group gets SIGTERM, and SIGKILL before another could hold the lease; when it is revoked, SIGKILL at once. When tenure itself is killed, the group is killed too. Signals are passed on, and the exit code is that of the command.",
    ],
    arguments: [{ name: "RESOURCE", required: true }],
    runs: "must",
    options: [
      STORE,
      { name: "wait", value: "TIME", summary: "Give up after so long. Default: wait for ever." },
      { name: "no-wait", summary: "Give up at once when somebody else holds it." },
      ...TIMING,
      KILL_AFTER,
      HIDE_STORE,
      { name: "restart", summary: "After a loss, queue again and run the command again." },
      {
        name: "once-per",
        value: "TIME",
        summary:
          "For schedulers on many machines: run at most once per window of this length, at most 24h. Does not wait; exit code 0 when the window is taken. A window lasts nine tenths of TIME, so that the next fire finds it over.",
      },
    ],
    examples: [
      {
        line: "tenure run backup --wait 30s -- pg_dump shop",
        does: "one machine at a time dumps",
      },
      {
        line: "tenure run nightly --once-per 24h -- ./settle.sh",
        does: "in the crontab of every machine: one of them settles",
      },
      {
        line: "tenure run dispatch --restart -- ./worker",
        does: "a worker that is always running, on one machine",
      },
    ],
    exits: ["unavailable", "lost", "busy", "timing", "notExecutable", "notFound", "signal"],
  },
  {
    name: "elect",
    summary: "Stand for election; print who leads, run a command while leading.",
    about: [
      "Campaigns under NAME until it is stopped, and prints every change of leader. With a command: runs it while leading, ends it like `run` when leadership is lost, campaigns again, and ends when the command ends by itself.",
    ],
    arguments: [{ name: "NAME", required: true }],
    runs: "may",
    options: [
      STORE,
      {
        name: "value",
        value: "VALUE",
        summary: "What followers read about this candidate: JSON, or else text.",
      },
      {
        name: "rank",
        value: "RANK",
        summary:
          "0 asks first; any other, up to 20, asks when nobody has led for RANK times 500 ms. Default: 0.",
      },
      ...TIMING,
      KILL_AFTER,
      HIDE_STORE,
    ],
    examples: [
      {
        line: "tenure elect dispatch --value 10.0.0.7:9000 -- ./dispatcher",
        does: "the leader dispatches",
      },
      { line: "tenure elect dispatch --json", does: "every change of leader as a line of JSON" },
    ],
    exits: ["unavailable", "timing", "notExecutable", "notFound", "signal"],
  },
  {
    name: "ls",
    summary: "List held leases.",
    about: ["Every held lease whose resource begins with PREFIX, ordered by resource."],
    arguments: [{ name: "PREFIX", required: false }],
    runs: "no",
    options: [STORE],
    examples: [{ line: "tenure ls billing/", does: "who holds what below billing/" }],
    exits: ["unavailable"],
  },
  {
    name: "show",
    summary: "Show who holds a resource.",
    about: ["One linearizable read. Exit code 1 when nobody holds it."],
    arguments: [{ name: "RESOURCE", required: true }],
    runs: "no",
    options: [STORE],
    examples: [{ line: "tenure show backup", does: "holder, token, value, since when, time left" }],
    exits: ["no", "unavailable"],
  },
  {
    name: "watch",
    summary: "Follow leases as they change hands.",
    about: [
      "On a terminal a table that redraws itself; in a pipe, or with --json, one line of JSON for what is held now and one for every change. Runs until it is stopped.",
    ],
    arguments: [{ name: "PREFIX", required: false }],
    runs: "no",
    options: [STORE],
    examples: [{ line: "tenure watch billing/ | jq .", does: "every change below billing/" }],
    exits: ["unavailable", "signal"],
  },
  {
    name: "revoke",
    summary: "End a lease that somebody else holds.",
    about: [
      "The resource is free at once. Its holder hears of it with its next renewal, and until then only a guard at the resource keeps it from acting. Only the grant that was shown is ended, never a newer one. Exit code 1 when nobody held it.",
    ],
    arguments: [{ name: "RESOURCE", required: true }],
    runs: "no",
    options: [STORE, { name: "yes", short: "y", summary: "Do not ask." }],
    examples: [
      {
        line: "tenure revoke backup --yes",
        does: "the resource is free, whoever held it has lost it",
      },
    ],
    exits: ["no", "unavailable"],
  },
  GUARD,
  {
    name: "plan",
    summary: "Show what a choice of durations means.",
    about: [
      "The five numbers, both inequalities, the worst gap after a crash and after a planned handover, and what it costs the store. Impossible numbers: which inequality they break, and the nearest that do not.",
    ],
    arguments: [],
    runs: "no",
    options: [
      ...TIMING,
      { name: "leases", value: "COUNT", summary: "Leases per process. Default: 1." },
      { name: "processes", value: "COUNT", summary: "Processes that hold leases. Default: 1." },
    ],
    examples: [
      {
        line: "tenure plan --ttl 10s --processes 50 --leases 200",
        does: "fifty processes with 200 leases each",
      },
      {
        line: "tenure plan --ttl 2s --clock-error 20ms --round-trip 100ms",
        does: "a short ttl needs measured bounds",
      },
    ],
    exits: ["timing"],
  },
  {
    name: "doctor",
    summary: "Measure store and machine; recommend durations.",
    about: [
      "Measures round trips to the store, the pauses of this process, CPU throttling and steal, and looks at the clocks and at what the store guarantees. Exit code 1 when something was found that would break a lease.",
    ],
    arguments: [],
    runs: "no",
    options: [
      STORE,
      { name: "for", value: "TIME", summary: "How long to measure, at most 10m. Default: 5s." },
      { name: "ttl", value: "TIME", summary: "The ttl to judge. Default: 10s." },
    ],
    examples: [
      {
        line: "tenure doctor --store redis://localhost --for 30s",
        does: "is a ttl of 10s safe here?",
      },
    ],
    exits: ["no", "unavailable", "timing", "signal"],
  },
  {
    name: "completion",
    summary: "Print a completion script for a shell.",
    about: ["Load it from the shell's start-up file."],
    arguments: [{ name: "SHELL", required: true, oneOf: ["bash", "zsh", "fish"] }],
    runs: "no",
    options: [],
    examples: [
      { line: "source <(tenure completion bash)", does: "in ~/.bashrc" },
      {
        line: "tenure completion fish > ~/.config/fish/completions/tenure.fish",
        does: "once, for fish",
      },
    ],
    exits: [],
  },
];
