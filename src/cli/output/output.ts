// Writes the output of a command. Results go to stdout and messages to stderr, so that `tenure run`
// adds nothing to the output of the command it runs. With --json both are lines of JSON.
//
// Names and values come from other processes and may contain control characters. This file replaces
// them in every line, so that commands need not. Styles are therefore passed beside a line, not
// inside it.

import { printable, table } from "./text.ts";

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, magenta: 35, cyan: 36 } as const;
export type Style = keyof typeof STYLES;
export type Paint = (style: Style, text: string) => string;

/** Colours text on a terminal. hasColors() respects NO_COLOR, FORCE_COLOR and TERM. */
export function paintFor(stream: { readonly hasColors?: () => boolean }): Paint {
  const colours = stream.hasColors?.() ?? false;
  return (style, text) => (colours ? `\u001B[${STYLES[style]}m${text}\u001B[0m` : text);
}

/** One line of a result, optionally in a style. */
export type Line = string | { readonly style: Style; readonly text: string };

/** A table with its head in bold. */
export function boldTable(head: readonly string[], body: readonly (readonly string[])[]): Line[] {
  const [first = "", ...rest] = table(head, body);
  return [{ style: "bold", text: first }, ...rest];
}

const WIDTH_MAX = 100;

export class Output {
  readonly json: boolean;
  readonly #paint: Paint = paintFor(process.stdout);
  readonly #paintError: Paint = paintFor(process.stderr);

  constructor(json: boolean) {
    this.json = json;
  }

  get onTerminal(): boolean {
    return process.stdout.isTTY === true;
  }

  /**
   * The maximum length of a line: the width of the terminal, at most 100. A file or pipe gets 100.
   */
  get width(): number {
    return Math.min(process.stdout.columns ?? WIDTH_MAX, WIDTH_MAX);
  }

  /** Writes the result: lines of text for people, or an object with --json. */
  answer(lines: () => Line | readonly Line[], object: () => unknown): void {
    process.stdout.write(`${this.json ? toJson(object()) : this.text(lines())}\n`);
  }

  /** The lines as they are written to stdout. */
  text(lines: Line | readonly Line[]): string {
    const all = Array.isArray(lines) ? (lines as readonly Line[]) : [lines as Line];
    const written = (line: Line): string =>
      typeof line === "string" ? printable(line) : this.#paint(line.style, printable(line.text));
    return all.map(written).join("\n");
  }

  /** Writes one line of JSON, for a command whose result is a stream of objects. */
  line(object: unknown): void {
    process.stdout.write(`${toJson(object)}\n`);
  }

  /** Writes a message to stderr. */
  note(sentence: string, facts: Readonly<Record<string, unknown>>): void {
    process.stderr.write(this.json ? `${toJson(facts)}\n` : `tenure: ${printable(sentence)}\n`);
  }

  /** Like `note()`, but only on a terminal or with --json: cron would send the message by mail. */
  noteIfWatched(sentence: string, facts: Readonly<Record<string, unknown>>): void {
    if (this.json || process.stderr.isTTY === true) this.note(sentence, facts);
  }

  /** Overwrites the previous progress line. Only on a terminal. */
  progress(text: string): void {
    if (process.stderr.isTTY === true && !this.json)
      process.stderr.write(`\r\u001B[K${printable(text)}`);
  }

  /**
   * Reports an error. Further lines are indented, so that each message starts at the left margin.
   */
  fail(message: string, facts: Readonly<Record<string, unknown>>): void {
    const lines = `tenure: ${message}`.split("\n").map(printable).join("\n  ");
    const text = this.json
      ? toJson({ error: { message, ...facts } })
      : this.#paintError("red", lines);
    process.stderr.write(`${text}\n`);
  }
}

/**
 * Tokens become strings of digits, because they may exceed the range of a JavaScript number.
 * JSON.stringify leaves U+007F to U+009F as they are. They are escaped here, which is equivalent
 * JSON.
 */
function toJson(object: unknown): string {
  const text = JSON.stringify(object, (_key, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  const escaped = (character: string): string => `\\u00${character.charCodeAt(0).toString(16)}`;
  return text.replace(/[\u007F-\u009F]/g, escaped);
}
