// The history of a fault trial: one line of JSON per event, appended to one file by all processes.
// Times are CLOCK_MONOTONIC in milliseconds, one clock for all processes of a host, so that the
// acts of one process can be compared with the grants of another. history-checks.ts checks it.
import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** What a process did with one grant. */
interface InTerm {
  readonly process: string;
  readonly resource: string;
  readonly token: bigint;
  readonly at: number;
}

export interface Granted extends InTerm {
  readonly event: "granted";
  /** When the process sent its request; `at` is when it had the answer. */
  readonly askedAt: number;
  readonly safeUntil: number;
}

/** A check that passed, and the act. `began` is read before the check, `at` after the act. */
export interface Acted extends InTerm {
  readonly event: "acted";
  readonly began: number;
}

/** A renewal moved the holder's deadline. */
interface Renewed extends InTerm {
  readonly event: "renewed";
  readonly safeUntil: number;
}

/** check() reported that a renewal had failed or, later, that the lease is confirmed again. */
interface Doubted extends InTerm {
  readonly event: "doubted" | "settled";
}

/** The holder learned that its lease has ended, from the signal or from check(). */
interface Notified extends InTerm {
  readonly event: "told";
  readonly reason: string;
}

export interface Released extends InTerm {
  readonly event: "released";
  readonly began: number;
  /** What release() returned. */
  readonly result: string;
}

/** A write through the guard. `late`: without a check of the lease, as after a freeze. */
interface Wrote extends InTerm {
  readonly event: "wrote";
  readonly began: number;
  readonly outcome: "admitted" | "refused";
  readonly late: boolean;
}

/** A failed request to the store. `code` is that of the error that acquire() threw. */
interface Failed {
  readonly event: "failed";
  readonly process: string;
  readonly resource: string;
  readonly at: number;
  readonly code: string;
}

/** The trial disturbed a process, its link or the store. The fault is in effect at `at`. */
export interface Fault {
  readonly event: "fault";
  readonly what: string;
  readonly at: number;
  /** The affected process; undefined if the store, and so every process, is affected. */
  readonly process?: string | undefined;
  /** unreachable: the store cannot answer. stopped: the process is frozen. gone: it is dead. */
  readonly effect: "unreachable" | "stopped" | "gone" | "other";
}

/** The fault is about to end. */
export interface Healed {
  readonly event: "healed";
  readonly what: string;
  readonly at: number;
}

/** Evidence from outside the library that the fault had an effect. */
export interface Evidence {
  readonly event: "tookEffect";
  readonly what: string;
  readonly at: number;
  readonly evidence: string;
}

export type Term = Granted | Acted | Renewed | Doubted | Notified | Released | Wrote;
export type HistoryEvent = Term | Failed | Fault | Healed | Evidence;

export function hostMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The file of one trial, as the test writes and reads it. Workers append to it themselves. */
export class History {
  readonly file: string;

  constructor(file: string) {
    this.file = file;
  }

  note(event: Omit<Fault, "at"> | Omit<Healed, "at"> | Omit<Evidence, "at">): number {
    const at = hostMs();
    appendFileSync(this.file, `${JSON.stringify({ ...event, at })}\n`);
    return at;
  }

  read(): HistoryEvent[] {
    if (!existsSync(this.file)) return [];
    return parseHistory(readFileSync(this.file, "utf8"));
  }
}

/** Sorted by `at`. An incomplete last line is left by a process that was killed while writing. */
export function parseHistory(text: string): HistoryEvent[] {
  const lines = text.split("\n").slice(0, -1);
  const events = lines.map((line) => {
    const facts = JSON.parse(line) as { token?: string };
    return (facts.token === undefined
      ? facts
      : { ...facts, token: BigInt(facts.token) }) as unknown as HistoryEvent;
  });
  return events.sort((a, b) => a.at - b.at);
}

/** For the message of a failed trial: the rare events, then acts and longest pause by process. */
export function summarize(history: readonly HistoryEvent[]): string {
  const startedAt = history[0]?.at ?? 0;
  const lines = history.flatMap((each) =>
    each.event === "acted" || each.event === "wrote" || each.event === "renewed"
      ? []
      : `${(each.at - startedAt).toFixed(0).padStart(6)} ms  ${format(each)}`,
  );
  const processes = new Set(history.flatMap((each) => ("process" in each ? [each.process] : [])));
  for (const name of processes) {
    const acts = history.filter((each) => each.event === "acted" && each.process === name);
    const pauses = acts.slice(1).map((act, index) => act.at - (acts[index]?.at ?? act.at));
    const longest = Math.max(0, ...pauses);
    lines.push(`${name}: ${acts.length} acts, longest pause ${longest.toFixed(0)} ms`);
  }
  return lines.join("\n");
}

function format(event: HistoryEvent): string {
  return JSON.stringify(event, (key, value) =>
    key === "at" ? undefined : typeof value === "bigint" ? String(value) : value,
  );
}
