// What a command says: answers on stdout, everything about itself on stderr, so that `tenure run` adds nothing to the output
// of the command it runs. With --json both are lines of JSON.
//
// Names and values come from others. All text is made printable here, line by line, so that no command has to think of it:
// a control character in a name reaches no terminal. Styles are therefore given beside a line, and not inside its text.

import { type Paint, paintFor, type Style } from "./paint.ts";
import { printable } from "./text.ts";

/** One line of an answer: its text, or its text in one style. */
export type Line = string | { readonly style: Style; readonly text: string };

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

  /** How long a line of an answer may be. No terminal wraps it then, and a file or pipe gets the same everywhere. */
  get width(): number {
    return Math.min(process.stdout.columns ?? WIDTH_MAX, WIDTH_MAX);
  }

  /** The answer: for people as one line or several, for programs as an object. */
  answer(lines: () => Line | readonly Line[], object: () => unknown): void {
    process.stdout.write(`${this.json ? toJson(object()) : this.text(lines())}\n`);
  }

  /** The lines as they are written. */
  text(lines: Line | readonly Line[]): string {
    const all = Array.isArray(lines) ? (lines as readonly Line[]) : [lines as Line];
    const written = (line: Line): string =>
      typeof line === "string" ? printable(line) : this.#paint(line.style, printable(line.text));
    return all.map(written).join("\n");
  }

  /** Takes the whole screen of the terminal, until `leaveScreen()`. What was there before is there again afterwards. */
  enterScreen(): void {
    process.stdout.write("\u001B[?1049h\u001B[?25l");
  }

  drawScreen(lines: readonly Line[]): void {
    process.stdout.write(`\u001B[H\u001B[J${this.text(lines)}`);
  }

  leaveScreen(): void {
    process.stdout.write("\u001B[?25h\u001B[?1049l");
  }

  line(object: unknown): void {
    process.stdout.write(`${toJson(object)}\n`);
  }

  /** Something that happened, beside the answer. */
  note(sentence: string, facts: Readonly<Record<string, unknown>>): void {
    process.stderr.write(this.json ? `${toJson(facts)}\n` : `tenure: ${printable(sentence)}\n`);
  }

  /** The same, but only when somebody watches or a program listens: cron would send it by mail. */
  aside(sentence: string, facts: Readonly<Record<string, unknown>>): void {
    if (this.json || process.stderr.isTTY === true) this.note(sentence, facts);
  }

  /** One line that is written over by the next; only where somebody watches. */
  progress(text: string): void {
    if (process.stderr.isTTY === true && !this.json)
      process.stderr.write(`\r\u001B[K${printable(text)}`);
  }

  /** Further lines of the message are indented, so that none looks like a message of its own. */
  fail(message: string, facts: Readonly<Record<string, unknown>>): void {
    const lines = `tenure: ${message}`.split("\n").map(printable).join("\n  ");
    const text = this.json
      ? toJson({ error: { message, ...facts } })
      : this.#paintError("red", lines);
    process.stderr.write(`${text}\n`);
  }
}

/**
 * Tokens are written as digits in quotes: they may be larger than a number can be. JSON leaves some control characters as
 * they are; these are escaped too, which means the same to every reader.
 */
function toJson(object: unknown): string {
  const text = JSON.stringify(object, (_key, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  const escaped = (character: string): string => `\\u00${character.charCodeAt(0).toString(16)}`;
  return text.replace(/[\u007F-\u009F]/g, escaped);
}
