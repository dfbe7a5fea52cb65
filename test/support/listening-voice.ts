// A voice that keeps what a command answers, for tests of commands.
import { Voice } from "../../src/cli/voice.ts";

export class ListeningVoice extends Voice {
  readonly texts: string[] = [];

  override answer(text: () => string, object: () => unknown): void {
    this.texts.push(this.json ? JSON.stringify(object(), bigintAsText) : text());
  }

  override progress(): void {}
}

function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
