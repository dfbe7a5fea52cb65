// Reads leases and sessions from what is written to the model's keys, and notes in the trace what
// the server did to them. It relies on the stored format of a lease
// (src/stores/redis/grant.lua.ts) and on nothing else.

import { namesOf } from "../../../src/stores/redis/names.ts";
import type { HostClocks } from "../../world/host-clocks.ts";
import type { Ending, Trace } from "../../world/trace.ts";
import type { Witness } from "./key-space.ts";

const names = namesOf("tenure");
const LEASE = names.lease("");
const SESSION = `${names.base}s:`;
const LEASE_TEXT = /^[HW](\d+):(\d+):/;

interface Held {
  readonly token: bigint;
  readonly session: string;
  readonly attempt: string;
}

export interface WitnessParts {
  readonly trace: Trace;
  readonly clocks: HostClocks;
  /** Whether a key exists now. */
  exists(key: string): boolean;
  /** The name of the running script. */
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
  /** By resource. Includes leases whose session has expired, until a request finds that out. */
  readonly #held = new Map<string, Held>();

  constructor(parts: WitnessParts) {
    this.#parts = parts;
  }

  wrote(key: string, text: string): void {
    if (!key.startsWith(LEASE)) return;
    const resource = key.slice(LEASE.length);
    const before = this.#held.get(resource);
    const after = parseLease(text);
    if (after === undefined) this.#held.delete(resource);
    else this.#held.set(resource, after);
    if (before !== undefined) {
      if (after?.token === before.token && after.session === before.session) return;
      // A request that finds a lease expired has not freed it. One that hands a lease off has.
      if (this.#lives(before.session)) this.#freed(resource, before);
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

  /** Starts again from what the server still knows. */
  forgot(texts: Iterable<[key: string, text: string]>): void {
    this.#held.clear();
    for (const [key, text] of texts) {
      const held = key.startsWith(LEASE) ? parseLease(text) : undefined;
      if (held !== undefined) this.#held.set(key.slice(LEASE.length), held);
    }
  }

  #lives(session: string): boolean {
    return this.#parts.exists(SESSION + session);
  }

  #freed(resource: string, { token }: Held): void {
    const how = ENDINGS[this.#parts.running()] ?? "released";
    this.#parts.trace.note("store", { kind: "storeFreed", resource, token, how });
  }
}

/** Parses a stored lease. Returns undefined if it is free. */
function parseLease(text: string): Held | undefined {
  const head = LEASE_TEXT.exec(text);
  if (head === null) return undefined;
  const from = head[0].length;
  const sessionEnd = from + Number(head[2]);
  const [length = "", digits = ""] = /^(\d+):/.exec(text.slice(sessionEnd, sessionEnd + 12)) ?? [];
  const start = sessionEnd + length.length;
  return {
    token: BigInt(head[1] ?? ""),
    session: text.slice(from, sessionEnd),
    attempt: text.slice(start, start + Number(digits)),
  };
}
