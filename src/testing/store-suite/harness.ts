// What the suite needs to know about a store, and small helpers that every topic uses. The test runner is handed in, so
// that authors of stores can use the one they have.

import type { GrantOutcome, Guarantees, LeaseRef, Store } from "../../stores/contract.ts";

/** One backend, fresh for one test. */
export interface StoreHarness {
  /** Opens a further, independent client of the same backend, as another process would. */
  open(): Promise<Store>;
  /** Lets this much time pass for the backend and its clients. */
  sleep(ms: number): Promise<void>;
  /** A monotonic clock in milliseconds that is at least as fast as real time. */
  now(): number;
  /** Stops the backend the hard way and starts it again on the same data. Leave out when it cannot be restarted. */
  readonly restart?: (() => Promise<void>) | undefined;
  /** Tries to delete what is stored of a resource, as a person with a console would. May be refused. */
  readonly deleteRows?: ((resource: string) => Promise<void>) | undefined;
  /**
   * Ways in which the backend can lose what it knew, by name: "the file is deleted". Each is called before the grants that will be
   * lost, for example to take a copy, and returns the function that makes the backend forget. Clients that are open then need
   * not work any more. The names must be those in `forgets` of the StoreUnderTest.
   */
  readonly forgetting?: Readonly<Record<string, () => Promise<() => Promise<void>>>> | undefined;
  /** Sets the resource's token, as if it had been granted that often. */
  readonly setToken?: ((resource: string, token: bigint) => Promise<void>) | undefined;
  close(): Promise<void>;
}

export interface StoreUnderTest {
  readonly name: string;
  /** A ttl that the backend can grant exactly and that the suite can afford to wait for a few times. */
  readonly ttlMs: number;
  /** The names in `forgetting` of its harness. Leave out for a backend whose tokens are the numbers of a consensus log. */
  readonly forgets?: readonly string[] | undefined;
  /** Must be what the opened stores say; lets the suite decide before opening one. */
  readonly guarantees: Pick<Guarantees, "fifo" | "durable">;
  create(): Promise<StoreHarness>;
}

/** `skip` ends the test; it must be counted and the reason shown. */
export type TestBody = (skip: (reason: string) => never) => Promise<void>;

/** The few things the suite needs of a test runner. */
export interface Runner {
  describe(name: string, body: () => void): void;
  test(name: string, body: TestBody): void;
}

/** One running test: clients that are closed afterwards, sessions with short names, requests with defaults filled in. */
export class Bench {
  readonly harness: StoreHarness;
  readonly ttlMs: number;
  readonly #stores: Store[] = [];
  #attempts = 0;

  constructor(harness: StoreHarness, ttlMs: number) {
    this.harness = harness;
    this.ttlMs = ttlMs;
  }

  async store(): Promise<Store> {
    const store = await this.harness.open();
    this.#stores.push(store);
    return store;
  }

  async session(store: Store, sessionId: string, ttlMs: number = this.ttlMs): Promise<Client> {
    const granted = await store.openSession({
      sessionId,
      holderId: `holder of ${sessionId}`,
      ttlMs,
      limitMs: LIMIT_MS,
    });
    return new Client(store, sessionId, granted.ttlMs, () => `${sessionId}.${++this.#attempts}`);
  }

  /** For sessions whose expiry is not under test: many requests fit into it, on a busy machine too. */
  get longMs(): number {
    return this.ttlMs * 10;
  }

  /** Past the end of a session that was confirmed just now. */
  async expire(store: Store, ttlMs: number = this.ttlMs): Promise<void> {
    await this.harness.sleep(ttlMs + store.guarantees.expiryLagMs + 1);
  }

  async close(): Promise<void> {
    for (const store of this.#stores) await store.close().catch(() => undefined);
    await this.harness.close();
  }
}

export const LIMIT_MS = 5_000;

/** A session at a store, with the requests as short verbs. */
export class Client {
  readonly store: Store;
  readonly sessionId: string;
  readonly ttlMs: number;
  readonly newAttempt: () => string;

  constructor(store: Store, sessionId: string, ttlMs: number, newAttempt: () => string) {
    this.store = store;
    this.sessionId = sessionId;
    this.ttlMs = ttlMs;
    this.newAttempt = newAttempt;
  }

  ask(
    resource: string,
    options: { attempt?: string; queue?: boolean; value?: unknown } = {},
  ): Promise<GrantOutcome> {
    const { sessionId } = this;
    const { attempt = this.newAttempt(), queue = false, value } = options;
    const holderId = `holder of ${sessionId}`;
    return this.store.grant({
      sessionId,
      resource,
      attempt,
      holderId,
      queue,
      value,
      limitMs: LIMIT_MS,
    });
  }

  /** Asks and expects a yes. */
  async take(
    resource: string,
    options: { attempt?: string; queue?: boolean; value?: unknown } = {},
  ): Promise<bigint> {
    const outcome = await this.ask(resource, options);
    if (outcome.kind === "granted") return outcome.token;
    throw new Error(`${this.sessionId} expected a grant of "${resource}", got ${outcome.kind}`);
  }

  async release(resource: string, token: bigint): Promise<string> {
    const { sessionId } = this;
    return (await this.store.release({ sessionId, resource, token, limitMs: LIMIT_MS })).kind;
  }

  renew(
    withdrawn: { resource: string; attempt: string }[] = [],
    acknowledged: readonly LeaseRef[] = [],
  ): ReturnType<Store["renew"]> {
    const { sessionId } = this;
    return this.store.renew({ sessionId, withdrawn, acknowledged, limitMs: LIMIT_MS });
  }

  withdraw(resource: string, attempt: string): Promise<void> {
    return this.store.withdraw({ sessionId: this.sessionId, resource, attempt, limitMs: LIMIT_MS });
  }

  end(): Promise<void> {
    return this.store.endSession({ sessionId: this.sessionId, limitMs: LIMIT_MS });
  }

  untilFree(
    resource: string,
    attempt: string,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<void> {
    return this.store.untilFree({
      sessionId: this.sessionId,
      resource,
      attempt,
      signal,
      limitMs: LIMIT_MS,
    });
  }

  async holder(
    resource: string,
  ): Promise<{ holderId: string; token: bigint; value?: unknown } | undefined> {
    const answer = await this.store.read({
      resource,
      consistency: "linearizable",
      limitMs: LIMIT_MS,
    });
    return answer.holder;
  }
}

/** Fails with a sentence that says what was expected of the store. */
export function expect(actual: unknown, expected: unknown, rule: string): void {
  if (show(actual) !== show(expected)) {
    throw new Error(`${rule}\n  expected: ${show(expected)}\n  got:      ${show(actual)}`);
  }
}

export function expectTrue(fact: boolean, rule: string): void {
  if (!fact) throw new Error(rule);
}

function show(value: unknown): string {
  return (
    JSON.stringify(value, (_key, part: unknown) =>
      typeof part === "bigint" ? `${part}n` : part,
    ) ?? "undefined"
  );
}
