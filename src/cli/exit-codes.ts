// The exit codes of `tenure` and their meanings. Help, the manual page, docs/cli.md and the tests
// use this table. The meaning of a number never changes. 69 to 78 follow sysexits.h.

export const EXIT = {
  ok: 0,
  no: 1,
  usage: 2,
  unavailable: 69,
  lost: 70,
  failed: 71,
  busy: 75,
  timing: 78,
  notExecutable: 126,
  notFound: 127,
  signal: 128,
} as const;

export type ExitName = keyof typeof EXIT;

export const MEANINGS: Readonly<Record<ExitName, string>> = {
  ok: "Success. `run` and `elect` with a command exit with the code of the command instead.",
  no: "The answer is no: the resource is free (show, revoke), a table is not properly protected or there is no token to reset (guard), or a check failed (doctor).",
  usage: "The command line is invalid; nothing was done.",
  unavailable: "The store, or the database of a guard, cannot be reached or cannot be used.",
  lost: "The lease was lost while the command was running; its whole process group was killed.",
  failed: "An unexpected error; the message describes it.",
  busy: "Another process holds the lease, and --wait has passed or --no-wait was given.",
  timing: "The durations contradict each other; the message names the nearest valid ones.",
  notExecutable: "The command to run exists but cannot be executed.",
  notFound: "The command to run was not found.",
  signal: "128 + n: tenure, or the command it ran, was ended by signal n.",
};

export function exitCodes(): { readonly code: number; readonly meaning: string }[] {
  return Object.entries(EXIT).map(([name, code]) => ({
    code,
    meaning: MEANINGS[name as ExitName],
  }));
}
