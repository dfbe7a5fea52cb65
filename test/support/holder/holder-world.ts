// Shared by the tests of the holder: one manual clock, one memory backend with any number of
// processes, and a store wrapper that can lose, delay and reject requests. No real time passes.

import type { Random } from "../../../src/async/clock.ts";
import { StoreUnavailableError } from "../../../src/core/errors.ts";
import type { AcquireOptions } from "../../../src/holder/options.ts";
import {
  openUnrenewedSession,
  type UnrenewedSession,
} from "../../../src/holder/unrenewed-session.ts";
import type { SessionEvents, Store } from "../../../src/stores/contract.ts";
import { MemoryBackend, memoryStore } from "../../../src/stores/memory/index.ts";
import { createTenure, type Tenure } from "../../../src/tenure.ts";
import { ManualClock, manualRandom } from "../../../src/testing/manual-clock.ts";

/** Renewed every 3,000 ms, round trips up to 900, safeUntil 8,000 after the request. */
export const TIMING = { ttlMs: 9_000, clockErrorMs: 100, roundTripMs: 900 } as const;
export const RENEW_EVERY_MS = 3_000;
export const SAFE_MS = 8_000;
/** How much longer than the limit of a request the holder waits for a store that exceeds it. */
export const GRACE_MS = 50;

type Method =
  | "openSession"
  | "grant"
  | "renew"
  | "release"
  | "withdraw"
  | "endSession"
  | "read"
  | "list"
  | "revoke";
type Request<M extends Method> = Parameters<Store[M]>[0];
type Answer<M extends Method> = ReturnType<Store[M]>;

/** Intercepts one kind of request. Each call of `forward` sends the request to the store. */
type Hook<M extends Method> = (request: Request<M>, forward: () => Answer<M>) => Answer<M>;

/** A store that counts requests and lets a test intercept them. Hooks can change at any time. */
class WrappedStore implements Store {
  readonly hooks: { [M in Method]?: Hook<M> | undefined } = {};
  readonly calls: Record<Method, number> = {
    openSession: 0,
    grant: 0,
    renew: 0,
    release: 0,
    withdraw: 0,
    endSession: 0,
    read: 0,
    list: 0,
    revoke: 0,
  };
  closed = 0;
  /** Whether the events of sessions get lost on the way to the holder. */
  losesEvents = false;
  readonly guarantees: Store["guarantees"];
  watch: Store["watch"];
  readonly #inner: Store;

  constructor(inner: Store) {
    this.#inner = inner;
    this.guarantees = inner.guarantees;
    this.watch = (request) => inner.watch(request);
  }

  openSession: Store["openSession"] = (request) => {
    const { events } = request;
    const passed: SessionEvents = {
      granted: (grant) => (this.losesEvents ? undefined : events?.granted(grant)),
      lost: (ref) => (this.losesEvents ? undefined : events?.lost(ref)),
      wanted: (ref) => (this.losesEvents ? undefined : events?.wanted(ref)),
    };
    return this.#pass("openSession", { ...request, events: passed });
  };
  grant: Store["grant"] = (request) => this.#pass("grant", request);
  renew: Store["renew"] = (request) => this.#pass("renew", request);
  release: Store["release"] = (request) => this.#pass("release", request);
  withdraw: Store["withdraw"] = (request) => this.#pass("withdraw", request);
  endSession: Store["endSession"] = (request) => this.#pass("endSession", request);
  read: Store["read"] = (request) => this.#pass("read", request);
  list: Store["list"] = (request) => this.#pass("list", request);
  revoke: Store["revoke"] = (request) => this.#pass("revoke", request);

  async close(): Promise<void> {
    this.closed += 1;
    await this.#inner.close();
  }

  /** The same hook for every request. */
  hookAll(hook: <T>(forward: () => Promise<T>) => Promise<T>): void {
    for (const method of Object.keys(this.calls) as Method[]) this.#set(method, hook);
  }

  unhook(): void {
    for (const method of Object.keys(this.calls) as Method[]) this.hooks[method] = undefined;
  }

  #set<M extends Method>(method: M, hook: <T>(forward: () => Promise<T>) => Promise<T>): void {
    const set: Hook<M> = (_, forward) => hook(forward as () => Promise<never>) as Answer<M>;
    Object.assign(this.hooks, { [method]: set });
  }

  #pass<M extends Method>(method: M, request: Request<M>): Answer<M> {
    this.calls[method] += 1;
    const inner = this.#inner[method] as (request: Request<M>) => Answer<M>;
    const forward = (): Answer<M> => inner.call(this.#inner, request);
    const hook = this.hooks[method] as Hook<M> | undefined;
    return hook === undefined ? forward() : hook(request, forward);
  }
}

/** The request does not arrive, and the error says so. */
export function down(): Promise<never> {
  return Promise.reject(new StoreUnavailableError("down (by the test)", { applied: "no" }));
}

/** The request arrives, the answer does not. */
export async function loseReply<T>(forward: () => Promise<T>): Promise<T> {
  await forward();
  throw new StoreUnavailableError("the answer got lost (by the test)", { applied: "unknown" });
}

/** The request is never answered. */
export function hang(): Promise<never> {
  return new Promise(() => undefined);
}

/** A promise that the test resolves with open(). */
export class Gate {
  open!: () => void;
  readonly opened: Promise<void>;

  constructor() {
    this.opened = new Promise((resolve) => {
      this.open = resolve;
    });
  }
}

/** Lets every promise that can settle do so, without moving the clock. */
export async function flush(): Promise<void> {
  for (let turn = 0; turn < 200; turn += 1) await Promise.resolve();
}

/** The state of a promise: "pending", { value } or { error }. */
export async function outcome(promise: Promise<unknown>): Promise<unknown> {
  const pending = Symbol("pending");
  const settled = promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  await flush();
  const first = await Promise.race([settled, Promise.resolve(pending)]);
  return first === pending ? "pending" : first;
}

export interface World {
  readonly clock: ManualClock;
  readonly random: Random;
  readonly backend: MemoryBackend;
  /** Another process on the same backend, with its own wrapped store. */
  join(holderId: string, defaults?: AcquireOptions): Promise<Member>;
}

export interface Member {
  readonly tenure: Tenure;
  readonly store: WrappedStore;
  /** Messages passed to `warn`. */
  readonly warnings: readonly string[];
}

/**
 * Writes one of Tenure's own records, whose reserved names acquire() rejects. `end()` removes it.
 */
export async function writeRecord(
  { clock, random }: World,
  { store, tenure }: Member,
  resource: string,
  value: unknown,
): Promise<UnrenewedSession> {
  const { holderId } = tenure;
  const parts = { store, clock, random, holderId, limitMs: TIMING.roundTripMs };
  const session = await openUnrenewedSession(parts, 600_000);
  await session.grant(resource, value);
  return session;
}

export function makeWorld(clock: ManualClock = new ManualClock()): World {
  const backend = new MemoryBackend({ firstToken: 1n });
  const random = manualRandom();
  return {
    clock,
    random,
    backend,
    join: async (holderId, defaults = TIMING) => {
      const parts = { clock, hostClock: clock.hostClock, random, warn: () => undefined };
      const store = new WrappedStore(await memoryStore(backend)(parts));
      const warnings: string[] = [];
      const warn = (message: string): void => void warnings.push(message);
      const tenureParts = { store, clock, random, holderId, defaults, keepAlive: false, warn };
      return { tenure: createTenure(tenureParts), store, warnings };
    },
  };
}
