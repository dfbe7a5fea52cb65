// The revocations of one session: which of them its renewals report, and how the acknowledged ones are deleted from the node
// in which revokers leave their notices. Revokers append to that node at any time, so a deletion is conditional on the
// version that was last read. If it fails, the node is read again and a later renewal deletes.

import type { LeaseRef } from "../contract.ts";
import { encodeNotices } from "./record.ts";

export interface Deletion {
  /** What the node shall say. */
  readonly data: string;
  /** The version of the node that says this and the acknowledged notices, and nothing else. */
  readonly version: number;
  readonly handled: readonly string[];
}

export class Notices {
  readonly #unacknowledged = new Map<string, LeaseRef>();
  /** Acknowledged, but as far as is known still in the node. */
  readonly #handled = new Set<string>();
  #version = 0;

  get unacknowledged(): readonly LeaseRef[] {
    return [...this.#unacknowledged.values()];
  }

  acknowledge(refs: readonly LeaseRef[]): void {
    for (const ref of refs) {
      const name = nameOf(ref);
      if (this.#unacknowledged.delete(name)) this.#handled.add(name);
    }
  }

  /** What the node says. */
  read(found: readonly LeaseRef[], version: number): void {
    this.#version = version;
    const names = new Set(found.map(nameOf));
    for (const name of this.#handled) if (!names.has(name)) this.#handled.delete(name);
    for (const { resource, token } of found) {
      const name = nameOf({ resource, token });
      if (!this.#handled.has(name)) this.#unacknowledged.set(name, { resource, token });
    }
  }

  /** Undefined when there is nothing to delete. */
  get deletion(): Deletion | undefined {
    if (this.#handled.size === 0) return undefined;
    const data = encodeNotices(this.unacknowledged);
    return { data, version: this.#version, handled: [...this.#handled] };
  }

  /** A deletion took effect, and this is the version that it made. */
  deleted(handled: readonly string[], version: number): void {
    this.#version = version;
    for (const name of handled) this.#handled.delete(name);
  }
}

function nameOf({ resource, token }: LeaseRef): string {
  return `${token} ${resource}`;
}
