// Text for a terminal: folded lines and plain tables.

/** Breaks at spaces so that no line is longer than `width`, unless one word is. */
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

/** Folds a text that follows `start`, and indents all further lines so that they begin below the text. */
export function foldAfter(start: string, text: string, width: number): string[] {
  const lines = fold(text, Math.max(HANGING_MIN, width - start.length));
  return lines.map((line, index) => `${index === 0 ? start : " ".repeat(start.length)}${line}`);
}

/** On a narrower terminal lines are longer than it is wide: one word per line would be no easier to read. */
const HANGING_MIN = 24;

/** Columns as wide as their widest cell; the last one is not padded. */
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

/** For one line. Names come from others: a control character in one must not reach the terminal. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\u0000-\u001F\u007F-\u009F]/g, "\uFFFD");
}
