// What one process did to the session of another, and how the other one learns of it: a queued
// attempt was granted, a lease was revoked, a lease is wanted. Stores whose backend has messages
// send facts as text. Every client of the backend can send such a text, so a malformed one is
// ignored.

import { decodeToken } from "../../core/record.ts";
import { formatToken } from "../../core/token.ts";
import type { Grant, LeaseRef, SessionEvents } from "../contract.ts";

export type Fact =
  | { readonly kind: "granted"; readonly session: string; readonly grant: Grant }
  | { readonly kind: "lost" | "wanted"; readonly session: string; readonly ref: LeaseRef };

export function report(events: SessionEvents, fact: Fact): void {
  if (fact.kind === "granted") events.granted(fact.grant);
  else events[fact.kind](fact.ref);
}

/** The sessions of this process that want to learn facts. */
export class SessionListeners {
  readonly #listeners = new Map<string, SessionEvents>();

  open(sessionId: string, events: SessionEvents | undefined): void {
    if (events !== undefined) this.#listeners.set(sessionId, events);
  }

  end(sessionId: string): void {
    this.#listeners.delete(sessionId);
  }

  /** Reports a fact if it concerns a session of this process. */
  deliver(fact: Fact): void {
    const events = this.#listeners.get(fact.session);
    if (events !== undefined) report(events, fact);
  }
}

/** The fact as a JSON list: kind, session, resource, token, and the attempt of a grant. */
export function encodeFact(fact: Fact): string {
  const { kind, session } = fact;
  const { resource, token } = kind === "granted" ? fact.grant : fact.ref;
  const attempt = kind === "granted" ? [fact.grant.attempt] : [];
  return JSON.stringify([kind, session, resource, formatToken(token), ...attempt]);
}

/** Undefined if the text is not a fact. */
export function decodeFact(text: string): Fact | undefined {
  try {
    const [kind, session, resource, digits, attempt] = JSON.parse(text) as readonly unknown[];
    if (typeof session !== "string" || typeof resource !== "string") return undefined;
    if (typeof digits !== "string") return undefined;
    const ref = { resource, token: decodeToken(digits) };
    if (kind === "lost" || kind === "wanted") return { kind, session, ref };
    if (kind !== "granted" || typeof attempt !== "string") return undefined;
    return { kind, session, grant: { ...ref, attempt } };
  } catch {
    return undefined;
  }
}
