// Lays out text for a terminal: folded lines and plain tables.

/** Breaks at spaces so that no line is longer than `width`, unless a single word is. */
export function fold(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/** Folds `text` after `start`, and indents the further lines by the length of `start`. */
export function foldAfter(start: string, text: string, width: number): string[] {
  const lines = fold(text, Math.max(FOLDED_MIN_WIDTH, width - start.length));
  return lines.map((line, index) => `${index === 0 ? start : " ".repeat(start.length)}${line}`);
}

/**
 * On a narrow terminal lines may exceed its width: one word per line would be no easier to read.
 */
const FOLDED_MIN_WIDTH = 24;

/** Makes every column as wide as its widest cell. The last column is not padded. */
export function table(head: readonly string[], body: readonly (readonly string[])[]): string[] {
  const all = [head, ...body];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

/**
 * Replaces control characters in one line of text. Names and values come from other processes and
 * could otherwise send escape sequences to the terminal.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: intended
  return text.replace(/[\u0000-\u001F\u007F-\u009F]/g, "\uFFFD");
}
