// How a command ends, as one table: help, the manual page, docs/cli.md and the tests all read it. A number never changes
// its meaning. Those from 69 to 78 are the ones of sysexits.h that come nearest.

export interface ExitCode {
  readonly code: number;
  readonly meaning: string;
}

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
  ok: "Done. For `run` and `elect`: what the command ended with, whatever number that is.",
  no: "The answer is no: nobody holds it (show, revoke), a table is not protected as it should be or there is no token to reset (guard), doctor found something that would break, or sim did.",
  usage: "The command line makes no sense; nothing was done.",
  unavailable: "The store, or the database of guard, cannot be reached or cannot be used.",
  lost: "The lease was lost while the command ran; all of its process group was ended.",
  failed: "Something failed that Tenure does not know; the message has it.",
  busy: "Somebody else holds it, and the wait was over or there was none.",
  timing: "The durations contradict each other; the message has the nearest that do not.",
  notExecutable: "The command to run is there and cannot be executed.",
  notFound: "The command to run was not found.",
  signal: "128 + n: ended by signal n, Tenure itself or the command it ran.",
};

export function exitCodes(): ExitCode[] {
  return (Object.keys(EXIT) as ExitName[]).map((name) => ({
    code: EXIT[name],
    meaning: MEANINGS[name],
  }));
}
