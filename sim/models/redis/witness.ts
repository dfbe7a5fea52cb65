// Reads the leases and sessions of our store out of what is written to the keys of the model, and notes in the trace what the
// server did to them. It knows how a lease is stored (script-library.ts of the store), and nothing of how it came to that.

import { namesOf } from "../../../src/stores/redis/names.ts";
import type { HostClocks } from "../../world/host-clocks.ts";
import type { Ending, Trace } from "../../world/trace.ts";
import type { Witness } from "./key-space.ts";

const names = namesOf("tenure");
const LEASE = names.lease("");
const SESSION = names.session("");
const LEASE_TEXT = /^[HWK](\d+):(\d+):/;

interface Held {
  readonly token: bigint;
  readonly session: string;
  readonly attempt: string;
}

export interface WitnessParts {
  readonly trace: Trace;
  readonly clocks: HostClocks;
  /** Whether a key is there now. */
  isThere(key: string): boolean;
  /** The name of the script that runs. */
  running(): string;
}

const ENDINGS: Readonly<Record<string, Ending>> = {
  renew: "withdrawn",
  withdraw: "withdrawn",
  end: "sessionEnded",
  revoke: "revoked",
};

export class LeaseWitness implements Witness {
  readonly #parts: WitnessParts;
  /** By resource; also those whose session has expired, until somebody finds that. */
  readonly #held = new Map<string, Held>();

  constructor(parts: WitnessParts) {
    this.#parts = parts;
  }

  wrote(key: string, text: string): void {
    if (!key.startsWith(LEASE)) return;
    const resource = key.slice(LEASE.length);
    const before = this.#held.get(resource);
    const after = heldIn(text);
    if (after === undefined) this.#held.delete(resource);
    else this.#held.set(resource, after);
    if (before !== undefined) {
      if (after?.token === before.token && after.session === before.session) return;
      // What has expired is not freed by whoever finds it so.
      if (after === undefined && this.#lives(before.session)) this.#freed(resource, before);
    }
    if (after !== undefined)
      this.#parts.trace.note("store", { kind: "storeGranted", resource, ...after });
  }

  keeps(key: string, endsAt: number): void {
    if (!key.startsWith(SESSION)) return;
    const { clocks, trace } = this.#parts;
    const session = key.slice(SESSION.length);
    const until = clocks.trueInstant(clocks.now() + endsAt - clocks.wallNow());
    trace.note("store", { kind: "storeKept", session, until });
  }

  deleted(key: string): void {
    if (!key.startsWith(SESSION)) return;
    const session = key.slice(SESSION.length);
    for (const [resource, held] of this.#held)
      if (held.session === session) this.#freed(resource, held);
  }

  /** From now on this is all that the server knows. */
  forgot(texts: Iterable<[key: string, text: string]>): void {
    this.#held.clear();
    for (const [key, text] of texts) {
      const held = key.startsWith(LEASE) ? heldIn(text) : undefined;
      if (held !== undefined) this.#held.set(key.slice(LEASE.length), held);
    }
  }

  #lives(session: string): boolean {
    return this.#parts.isThere(SESSION + session);
  }

  #freed(resource: string, { token }: Held): void {
    const how = ENDINGS[this.#parts.running()] ?? "released";
    this.#parts.trace.note("store", { kind: "storeFreed", resource, token, how });
  }
}

/** Undefined: free. */
function heldIn(text: string): Held | undefined {
  const head = LEASE_TEXT.exec(text);
  if (head === null) return undefined;
  const from = head[0].length;
  const behind = from + Number(head[2]);
  const [length = "", digits = ""] = /^(\d+):/.exec(text.slice(behind, behind + 12)) ?? [];
  const start = behind + length.length;
  return {
    token: BigInt(head[1] ?? ""),
    session: text.slice(from, behind),
    attempt: text.slice(start, start + Number(digits)),
  };
}
