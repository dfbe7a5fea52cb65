// What a command says: answers on stdout, everything about itself on stderr, so that `tenure run` adds nothing to the output
// of the command it runs. With --json both are lines of JSON.

import { type Paint, paintFor } from "./paint.ts";

const WIDTH_MAX = 100;

export class Voice {
  readonly json: boolean;
  readonly paint: Paint = paintFor(process.stdout);
  readonly #paintError: Paint = paintFor(process.stderr);

  constructor(json: boolean) {
    this.json = json;
  }

  get onTerminal(): boolean {
    return process.stdout.isTTY === true;
  }

  /** How long a line of an answer may be. No terminal wraps it then, and a file or pipe gets the same everywhere. */
  get width(): number {
    return Math.min(process.stdout.columns ?? WIDTH_MAX, WIDTH_MAX);
  }

  /** The answer: for people as text, for programs as an object. */
  answer(text: () => string, object: () => unknown): void {
    process.stdout.write(`${this.json ? toJson(object()) : text()}\n`);
  }

  line(object: unknown): void {
    process.stdout.write(`${toJson(object)}\n`);
  }

  /** Something that happened, beside the answer. */
  note(sentence: string, facts: Readonly<Record<string, unknown>>): void {
    process.stderr.write(this.json ? `${toJson(facts)}\n` : `tenure: ${sentence}\n`);
  }

  /** The same, but only when somebody watches or a program listens: cron would send it by mail. */
  aside(sentence: string, facts: Readonly<Record<string, unknown>>): void {
    if (this.json || process.stderr.isTTY === true) this.note(sentence, facts);
  }

  /** One line that is written over by the next; only where somebody watches. */
  progress(text: string): void {
    if (process.stderr.isTTY === true && !this.json) process.stderr.write(`\r\u001B[K${text}`);
  }

  fail(message: string, facts: Readonly<Record<string, unknown>>): void {
    const text = this.json
      ? toJson({ error: { message, ...facts } })
      : this.#paintError("red", `tenure: ${message}`);
    process.stderr.write(`${text}\n`);
  }
}

/** Tokens are written as digits in quotes: they may be larger than a number can be. */
function toJson(object: unknown): string {
  return JSON.stringify(object, (_key, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
}
