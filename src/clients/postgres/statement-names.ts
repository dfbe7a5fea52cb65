// Names under which the server keeps parsed statements, for each connection: parsing costs it more than most requests do. A
// pooler in transaction mode may change the server behind a connection, which then does not know the name, or knows it
// already; from the first such answer on, statements go without names.

import type { Call } from "./link.ts";

/** What pg's query() takes. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values?: string[];
}

/** Without values pg uses the simple protocol, which takes several statements at once. */
export function unnamed({ text, values }: Call): Statement {
  return values.length === 0 ? { text } : { text, values: values as string[] };
}

export class StatementNames {
  readonly #names = new Map<string, string>();
  #areUsed = true;

  statementOf(call: Call): Statement {
    const { text } = call;
    if (!this.#areUsed || call.values.length === 0) return unnamed(call);
    let name = this.#names.get(text);
    if (name === undefined) {
      name = `tenure_${hashOf(text)}`;
      this.#names.set(text, name);
    }
    return { name, text, values: call.values as string[] };
  }

  areRefused(error: unknown): boolean {
    if (!isUnprepared(error)) return false;
    this.#areUsed = false;
    return true;
  }
}

/** The server does not know the name, knows it already, or is not there to be asked by name. */
export function isUnprepared(error: unknown): boolean {
  return ["26000", "42P05", "08P01"].includes(String((error as { code?: unknown })?.code));
}

/** Two statements never share a name by accident, also those of two stores on one pool. */
function hashOf(text: string): string {
  let [one, two] = [5381, 52711];
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    one = (Math.imul(one, 33) ^ unit) >>> 0;
    two = (Math.imul(two, 33) ^ unit) >>> 0;
  }
  return one.toString(36) + two.toString(36);
}
