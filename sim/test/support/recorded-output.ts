// Records the output of a command instead of printing it.
import { type Line, Output } from "../../../src/cli/output/output.ts";

export class RecordedOutput extends Output {
  readonly texts: string[] = [];

  override answer(lines: () => Line | readonly Line[], object: () => unknown): void {
    this.texts.push(this.json ? JSON.stringify(object(), bigintAsText) : this.text(lines()));
  }

  override progress(): void {}
}

function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
