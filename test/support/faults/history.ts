// What happened in a fault trial, told by the processes themselves: one line of JSON per event in one file, appended by all
// of them. Instants are CLOCK_MONOTONIC in milliseconds, one clock for all processes of a host, so that the acts of one
// can be laid beside the grants of another. history-checks.ts judges it.
import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** Of one term: what a process did with one grant. */
interface InTerm {
  readonly process: string;
  readonly resource: string;
  readonly token: bigint;
  readonly at: number;
}

export interface Granted extends InTerm {
  readonly event: "granted";
  /** When the process asked; `at` is when it knew. */
  readonly askedAt: number;
  readonly safeUntil: number;
}

/** The check passed, then the act was done. `began` is read before the check, `at` behind the act. */
export interface Acted extends InTerm {
  readonly event: "acted";
  readonly began: number;
}

/** The holder's own end moved. */
interface Renewed extends InTerm {
  readonly event: "renewed";
  readonly safeUntil: number;
}

/** check() said that a renewal had failed; and, later, that the lease is confirmed again. */
interface Doubted extends InTerm {
  readonly event: "doubted" | "settled";
}

/** The holder knows that it is over, by the signal or by check(). */
interface Told extends InTerm {
  readonly event: "told";
  readonly reason: string;
}

export interface Released extends InTerm {
  readonly event: "released";
  readonly began: number;
  /** What release() answered. */
  readonly result: string;
}

/** A write at the resource, through its guard. `late`: without asking the lease first, as after a freeze. */
interface Wrote extends InTerm {
  readonly event: "wrote";
  readonly began: number;
  readonly outcome: "admitted" | "refused";
  readonly late: boolean;
}

/** A request to the store that failed; what acquire() threw. */
interface Failed {
  readonly event: "failed";
  readonly process: string;
  readonly resource: string;
  readonly at: number;
  readonly code: string;
}

/** The trial did something to a process, its link or the store. It is in effect at `at`. */
export interface Fault {
  readonly event: "fault";
  readonly what: string;
  readonly at: number;
  /** Whom it hits; undefined: the store itself, and so everybody. */
  readonly process?: string | undefined;
  /** unreachable: no answer of the store can come. stopped: the process does nothing. gone: it is dead. */
  readonly effect: "unreachable" | "stopped" | "gone" | "other";
}

/** The fault is about to end. */
export interface Healed {
  readonly event: "healed";
  readonly what: string;
  readonly at: number;
}

/** Evidence, from outside of the library, that the fault did something. */
export interface Bit {
  readonly event: "bit";
  readonly what: string;
  readonly at: number;
  readonly evidence: string;
}

export type Term = Granted | Acted | Renewed | Doubted | Told | Released | Wrote;
export type Happening = Term | Failed | Fault | Healed | Bit;

export function hostMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** One trial's file, as the test writes and reads it. The workers append to it by themselves. */
export class History {
  readonly file: string;

  constructor(file: string) {
    this.file = file;
  }

  note(happening: Omit<Fault, "at"> | Omit<Healed, "at"> | Omit<Bit, "at">): number {
    const at = hostMs();
    appendFileSync(this.file, `${JSON.stringify({ ...happening, at })}\n`);
    return at;
  }

  read(): Happening[] {
    if (!existsSync(this.file)) return [];
    return parseHistory(readFileSync(this.file, "utf8"));
  }
}

/** In the order of `at`. A last line without an end belongs to a process that was killed while it wrote. */
export function parseHistory(text: string): Happening[] {
  const lines = text.split("\n").slice(0, -1);
  const happenings = lines.map((line) => {
    const facts = JSON.parse(line) as { token?: string };
    return (facts.token === undefined
      ? facts
      : { ...facts, token: BigInt(facts.token) }) as unknown as Happening;
  });
  return happenings.sort((a, b) => a.at - b.at);
}

/** For a person who looks at a failed trial: who did how much, and how long the longest pause between two acts was. */
export function summaryOf(history: readonly Happening[]): string {
  const begunAt = history[0]?.at ?? 0;
  const lines = history.flatMap((each) =>
    each.event === "acted" || each.event === "wrote" || each.event === "renewed"
      ? []
      : `${(each.at - begunAt).toFixed(0).padStart(6)} ms  ${shown(each)}`,
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

function shown(happening: Happening): string {
  return JSON.stringify(happening, (key, value) =>
    key === "at" ? undefined : typeof value === "bigint" ? String(value) : value,
  );
}
