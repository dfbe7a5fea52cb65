// The store contract on a MemoryBackend. The backend takes the steps; this file adds what needs
// time: expiry checks for waiters, and watches.

import type { Clock } from "../../async/clock.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import type * as contract from "../contract.ts";
import type { Store } from "../contract.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import { ExpiryChecks } from "../shared/expiry-checks.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { type Entry, expiresAt, type MemoryBackend, type Now } from "./backend.ts";

export class MemoryStore implements Store {
  readonly guarantees: contract.Guarantees = {
    store: "memory",
    tokenSource: "a counter per resource that starts at the wall clock, in this process",
    tokenFalls: "when the process ends and the wall clock was set back",
    expiryClock: "the process's monotonic clock",
    ttlStepMs: 1,
    expiryLagMs: 0,
    wakeUp: "push",
    fifo: true,
    durable: false,
  };
  readonly #backend: MemoryBackend;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  readonly #checks: ExpiryChecks;

  constructor(backend: MemoryBackend, clock: Clock) {
    this.#backend = backend;
    this.#clock = clock;
    this.#checks = new ExpiryChecks(clock, (resource) => this.#checkExpiry(resource));
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    this.#backend.openSession(request, this.#now());
    return { ttlMs: request.ttlMs };
  }

  async grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const outcome = this.#backend.grant(request, this.#now());
    if (outcome.kind === "queued") this.#planCheck(request.resource);
    return outcome;
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    return this.#backend.renew(request, this.#now());
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    return { kind: this.#backend.release(request, this.#now()) ? "released" : "notHeld" };
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    this.#backend.withdraw(request, this.#now());
  }

  async endSession(request: contract.SessionRequest): Promise<void> {
    this.#backend.endSession(request.sessionId, this.#now());
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { resource, consistency } = request;
    const holder = this.#toHolder(this.#backend.entries.get(resource), this.#now());
    return { resource, holder, evidence: { consistency, ageMs: 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const { prefix, after } = request;
    const held = this.#listHeld(prefix).filter(
      (view) => after === undefined || view.resource > after,
    );
    const leases = held.slice(0, request.limit);
    return { leases, next: held.length > request.limit ? leases.at(-1)?.resource : undefined };
  }

  async *watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const { prefix, signal } = request;
    const seen = new Map<string, bigint>();
    const wakeup = new Wakeup(this.#clock);
    const unlisten = this.#backend.onChange(wakeup.notify);
    this.#closing.signal.addEventListener("abort", wakeup.notify, { once: true });
    try {
      while (!signal.aborted && !this.#closing.signal.aborted) {
        wakeup.reset();
        const held = this.#listHeld(prefix);
        yield* changes(seen, held);
        request.onCaughtUp?.();
        await wakeup.wait(firstExpiryMs(held), signal).catch(() => undefined);
      }
    } finally {
      unlisten();
      this.#closing.signal.removeEventListener("abort", wakeup.notify);
    }
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    return { kind: this.#backend.revoke(request, this.#now()) ? "revoked" : "notHeld" };
  }

  async close(): Promise<void> {
    this.#checks.close();
    this.#closing.abort(
      new StoreUnavailableError("The memory store is closed.", { applied: "no" }),
    );
  }

  /** The time of a step. Throws if the store is closed. */
  #now(): Now {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
    return { now: this.#clock.now(), wallMs: this.#clock.wallNow() };
  }

  /** Plans the check of the holder. It is repeated as long as someone waits. */
  #planCheck(resource: string): void {
    const session = this.#backend.entries.get(resource)?.held?.session;
    if (session !== undefined)
      this.#checks.checkIn(resource, expiresAt(session) - this.#clock.now());
  }

  async #checkExpiry(resource: string): Promise<number | undefined> {
    const entry = this.#backend.entries.get(resource);
    if (entry === undefined) return undefined;
    this.#backend.checkExpiry(entry, this.#now());
    const session = entry.queue.length > 0 ? entry.held?.session : undefined;
    return session && expiresAt(session) - this.#clock.now();
  }

  #toHolder(entry: Entry | undefined, at: Now): contract.HolderView | undefined {
    const held = entry && this.#backend.findHeld(entry, at);
    if (!held) return undefined;
    const { session, token, holderId, value, grantedAt } = held;
    const [expiresInMs, heldForMs] = [expiresAt(session) - at.now, at.now - grantedAt];
    return { holderId, sessionId: session.id, token, value, expiresInMs, heldForMs };
  }

  #listHeld(prefix: string): contract.LeaseView[] {
    const at = this.#now();
    const names = [...this.#backend.entries.keys()].filter((name) => name.startsWith(prefix));
    return names
      .sort()
      .map((resource) => ({
        resource,
        holder: this.#toHolder(this.#backend.entries.get(resource), at),
      }))
      .filter(({ holder }) => holder !== undefined);
  }
}
