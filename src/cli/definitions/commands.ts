// Every command of `tenure`, as data, in the order in which help lists them.

import type { CommandDefinition, OptionDefinition } from "./definition.ts";

const time = (name: string, summary: string): OptionDefinition => ({
  name,
  value: "TIME",
  summary,
});

const STORE: OptionDefinition = {
  name: "store",
  value: "URL",
  summary:
    "The store that keeps the leases: sqlite:./file.db, postgres://..., redis://... Default: TENURE_STORE, otherwise a file in the user's state folder.",
};

const TIMING: readonly OptionDefinition[] = [
  time("ttl", "How long a grant lasts without renewal. Default: 10s."),
  time("renew-every", "How often the lease is renewed. Default: a third of the ttl or less."),
  time(
    "clock-error",
    "How far the clocks of this machine and the store may drift apart during one ttl. Default: 1 % of the ttl.",
  ),
  time(
    "round-trip",
    "The slowest healthy round trip to the store. Default: a tenth of the ttl, at most 1s.",
  ),
  time(
    "margin",
    "How long before the lease expires in the store the holder stops. Default: clock error plus round trip.",
  ),
];

const KILL_AFTER = time(
  "kill-after",
  "The time between SIGTERM and SIGKILL. Without a renewal, the command receives SIGTERM this long before its deadline. Default: a fifth of the ttl, at most 10s.",
);

const HIDE_STORE: OptionDefinition = {
  name: "hide-store",
  summary:
    "Remove the value of TENURE_STORE, which may contain a password, from the command's environment. A tenure started by the command then needs --store. Default: the command inherits TENURE_STORE.",
};

const GUARD: CommandDefinition = {
  name: "guard",
  summary: "Protect tables, so that every write needs a current token; reset guards.",
  about: [
    "install adds a trigger to TABLE (in PostgreSQL also to its partitions). The trigger rejects every write whose transaction was not admitted with a current token of --resource, including writes from psql, an ORM or a forgotten code path. remove drops the trigger. check lists the protected tables with their resources and checks that the protection is intact: every trigger is enabled and unchanged, every partition has one, and no admission was left open.",
    "reset makes the guard forget the highest token of RESOURCE. You need it once, when you move leases to etcd or ZooKeeper, whose tokens are lower than those of the other stores. After a reset the guard admits every token, including a late write of a former holder. Stop all holders of the old store first, wait for one ttl, reset, then start on the new store. reset works on every guard that keeps its tokens in a database, a server or a file.",
    "The exit code is 1 if the table is not protected, if check found a broken protection or no protected table, or if reset found no token or a newer one than it had shown. It is 2 if the table does not exist or is already protected.",
  ],
  arguments: [
    { name: "ACTION", required: true, oneOf: ["install", "remove", "check", "reset"] },
    { name: "TABLE|RESOURCE", required: false },
  ],
  options: [
    {
      name: "database",
      value: "URL",
      summary:
        "The database of the table or the guard: postgres://user@host/app or sqlite:./app.db. For reset also redis://..., etcd://..., zookeeper://... or file:./guarded.json. Default: TENURE_DATABASE. Use the variable for a URL with a password.",
    },
    {
      name: "resource",
      value: "RESOURCE",
      summary: "For install: the resource whose holder may write to the table.",
    },
    {
      name: "guard",
      value: "NAME",
      summary:
        "The schema (PostgreSQL), table (SQLite), prefix (Redis) or ledger (file) that keeps the highest tokens, as configured in your program. Default: the default of the guard, such as tenure_guard.",
    },
    { name: "yes", short: "y", summary: "For remove and reset: do not ask for confirmation." },
  ],
  examples: [
    {
      line: "tenure guard install public.payment --resource payments --database postgres://db/app",
      does: "rejects every write without a current token",
    },
    {
      line: "tenure guard check --database sqlite:./app.db",
      does: "lists the protected tables and checks their triggers",
    },
    {
      line: "tenure guard reset payments --database postgres://db/app",
      does: "after a move to etcd: lets the guard admit its lower tokens",
    },
  ],
  exits: ["no", "unavailable"],
};

export const COMMANDS: readonly CommandDefinition[] = [
  {
    name: "run",
    summary: "Hold a lease while a command runs.",
    about: [
      "Acquires RESOURCE, runs the command in its own session and process group, and releases the lease when every process of the group has ended. The environment of the command contains TENURE_RESOURCE, TENURE_TOKEN and TENURE_SAFE_UNTIL_MS. The last is the deadline when the command started, in milliseconds of this host's CLOCK_MONOTONIC.",
      "If the lease cannot be renewed in time, tenure sends SIGTERM to the group, and SIGKILL before another process can hold the lease. If the lease is revoked, it sends SIGKILL immediately. If tenure itself is killed, the group is killed too. Signals are passed on to the command. The exit code is that of the command.",
    ],
    arguments: [{ name: "RESOURCE", required: true }],
    runs: "must",
    options: [
      STORE,
      time("wait", "Give up after this time. Default: wait indefinitely."),
      { name: "no-wait", summary: "Give up immediately if the lease is held." },
      ...TIMING,
      KILL_AFTER,
      HIDE_STORE,
      {
        name: "restart",
        summary: "After losing the lease, acquire it again and run the command again.",
      },
      time(
        "once-per",
        "For schedulers on several machines: run the command at most once per window of this length, at most 24h. Does not wait. The exit code is 0 if the command has already run in this window. A window lasts nine tenths of TIME, so that it has expired when the next scheduled run is due.",
      ),
    ],
    examples: [
      {
        line: "tenure run backup --wait 30s -- pg_dump shop",
        does: "only one machine at a time runs the dump",
      },
      {
        line: "tenure run nightly --once-per 24h -- ./settle.sh",
        does: "in the crontab of every machine: only one of them runs it",
      },
      {
        line: "tenure run dispatch --restart -- ./worker",
        does: "keeps one worker running, on one of several machines",
      },
    ],
    exits: ["unavailable", "lost", "busy", "timing", "notExecutable", "notFound", "signal"],
  },
  {
    name: "elect",
    summary: "Campaign for leadership; print the leader, run a command while leading.",
    about: [
      "Campaigns in the election NAME until it is stopped, and prints every change of leader. With a command: runs it while leading, stops it as `run` does when leadership is lost, and campaigns again. Exits when the command exits by itself.",
    ],
    arguments: [{ name: "NAME", required: true }],
    runs: "may",
    options: [
      STORE,
      {
        name: "value",
        value: "VALUE",
        summary: "The value that followers read about this candidate. JSON, otherwise plain text.",
      },
      {
        name: "rank",
        value: "RANK",
        summary:
          "From 0 (leads first) to 20. When a term ends, the waiting candidate with the lowest rank leads. Default: 0.",
      },
      ...TIMING,
      KILL_AFTER,
      HIDE_STORE,
    ],
    examples: [
      {
        line: "tenure elect dispatch --value 10.0.0.7:9000 -- ./dispatcher",
        does: "runs the dispatcher on the leader",
      },
      {
        line: "tenure elect dispatch --json",
        does: "prints every change of leader as a line of JSON",
      },
    ],
    exits: ["unavailable", "timing", "notExecutable", "notFound", "signal"],
  },
  {
    name: "ls",
    summary: "List held leases.",
    about: ["Lists every held lease whose resource begins with PREFIX, ordered by resource."],
    arguments: [{ name: "PREFIX", required: false }],
    options: [STORE],
    examples: [
      {
        line: "tenure ls billing/",
        does: "lists the holders of all resources that begin with billing/",
      },
    ],
    exits: ["unavailable"],
  },
  {
    name: "show",
    summary: "Show the holder of a resource.",
    about: ["Reads the resource once, linearizably. The exit code is 1 if the resource is free."],
    arguments: [{ name: "RESOURCE", required: true }],
    options: [STORE],
    examples: [
      { line: "tenure show backup", does: "prints holder, token, value, time held and time left" },
    ],
    exits: ["no", "unavailable"],
  },
  {
    name: "watch",
    summary: "Follow changes of leases.",
    about: [
      "On a terminal, shows a table that is redrawn on every change. In a pipe, or with --json, prints one line of JSON for each held lease and then one for every change. Runs until it is stopped.",
    ],
    arguments: [{ name: "PREFIX", required: false }],
    options: [STORE],
    examples: [
      {
        line: "tenure watch billing/ | jq .",
        does: "prints every change of resources that begin with billing/",
      },
    ],
    exits: ["unavailable", "signal"],
  },
  {
    name: "revoke",
    summary: "End a lease that another process holds.",
    about: [
      "The resource is free immediately. The former holder learns of the revocation at its next renewal; until then only a guard at the resource prevents it from acting. Only the grant that was shown is revoked, never a newer one. The exit code is 1 if the resource was free.",
    ],
    arguments: [{ name: "RESOURCE", required: true }],
    options: [STORE, { name: "yes", short: "y", summary: "Do not ask for confirmation." }],
    examples: [
      {
        line: "tenure revoke backup --yes",
        does: "frees the resource without asking",
      },
    ],
    exits: ["no", "unavailable"],
  },
  GUARD,
  {
    name: "plan",
    summary: "Show what a choice of durations means.",
    about: [
      "Prints the five durations of a lease, both inequalities, the longest gap after a crash and after a planned handover, and the load on the store. If the durations are impossible, it names the inequality that they violate and the nearest valid durations.",
    ],
    arguments: [],
    options: [
      ...TIMING,
      { name: "leases", value: "COUNT", summary: "Leases per process. Default: 1." },
      { name: "processes", value: "COUNT", summary: "Processes that hold leases. Default: 1." },
    ],
    examples: [
      {
        line: "tenure plan --ttl 10s --processes 50 --leases 200",
        does: "the load of fifty processes with 200 leases each",
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
    summary: "Measure the store and this machine; recommend durations.",
    about: [
      "Measures round trips to the store, pauses of this process, CPU throttling and steal, and checks the clocks and the guarantees of the store. The exit code is 1 if it found a problem that would cause leases to be lost or held twice.",
    ],
    arguments: [],
    options: [
      STORE,
      time("for", "How long to measure, at most 10m. Default: 5s."),
      time("ttl", "The ttl to check. Default: 10s."),
    ],
    examples: [
      {
        line: "tenure doctor --store redis://localhost --for 30s",
        does: "checks whether a ttl of 10s is safe here",
      },
    ],
    exits: ["no", "unavailable", "timing", "signal"],
  },
  {
    name: "completion",
    summary: "Print a completion script for a shell.",
    about: ["Load the script from the shell's start-up file."],
    arguments: [{ name: "SHELL", required: true, oneOf: ["bash", "zsh", "fish"] }],
    options: [],
    examples: [
      { line: "source <(tenure completion bash)", does: "in ~/.bashrc, for bash" },
      {
        line: "tenure completion fish > ~/.config/fish/completions/tenure.fish",
        does: "once, for fish",
      },
    ],
    exits: [],
  },
];
