// What the author of a store gives to the suite, and helpers for its tests. The test runner is
// passed in, so that authors can use their own.

import type {
  Grant,
  GrantOutcome,
  Guarantees,
  LeaseRef,
  RenewRequest,
  SessionEvents,
  Store,
} from "../../stores/contract.ts";

/** A backend that is new for each test. */
export interface StoreHarness {
  /** Opens another independent client of the same backend, as another process would. */
  open(): Promise<Store>;
  /** Lets this much time pass for the backend and its clients. */
  sleep(ms: number): Promise<void>;
  /** A monotonic clock in milliseconds that is at least as fast as real time. */
  now(): number;
  /** Kills the backend and starts it again on the same data. Leave it out if that is impossible. */
  readonly restart?: (() => Promise<void>) | undefined;
  /** Deletes the data of a resource, as an administrator could. The backend may reject it. */
  readonly deleteRows?: ((resource: string) => Promise<void>) | undefined;
  /**
   * Ways in which the backend can lose data, by name, such as "the file is deleted". The suite
   * calls one before the grants that will be lost, for example to take a copy. It returns the
   * function that makes the backend lose them. Open clients may fail afterwards. The names must be
   * those in `forgets` of the StoreUnderTest.
   */
  readonly forgetting?: Readonly<Record<string, () => Promise<() => Promise<void>>>> | undefined;
  /** Sets the newest token of the resource. */
  readonly setToken?: ((resource: string, token: bigint) => Promise<void>) | undefined;
  /** Called after the test: removes the backend. The suite has closed the stores before. */
  close(): Promise<void>;
}

/** A kind of store, as given to storeSuite(). */
export interface StoreUnderTest {
  /** The name of the store in test titles, such as "the memory store". */
  readonly name: string;
  /** A ttl that the backend grants exactly. Many tests wait for it, so keep it short. */
  readonly ttlMs: number;
  /**
   * The names in `forgetting` of the harness. Leave it out for a backend whose tokens come from a
   * consensus log.
   */
  readonly forgets?: readonly string[] | undefined;
  /**
   * False for a store on which a quiet waiter cannot be skipped (see queue-policy.ts).
   * @default true
   */
  readonly skipsQuiet?: boolean | undefined;
  /** Must equal the guarantees of the opened stores. Decides which tests are declared. */
  readonly guarantees: Pick<Guarantees, "fifo" | "durable">;
  /** Called before each test. */
  create(): Promise<StoreHarness>;
}

/** `skip` ends the test. The runner must report the test as skipped, with the reason. */
export type TestBody = (skip: (reason: string) => never) => Promise<void>;

/** The part of a test runner that the suite uses. */
export interface Runner {
  /** Declares a group of tests. */
  describe(name: string, body: () => void): void;
  /** Declares a test. */
  test(name: string, body: TestBody): void;
}

/** The state of one test: opens stores and sessions, and closes them afterwards. */
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

  /** Opens a session. Its default ttl is long: it must not expire, even on a busy machine. */
  async session(
    store: Store,
    sessionId: string,
    ttlMs: number = this.longMs,
    quietAfterMs?: number,
  ): Promise<Client> {
    const events = new EventLog();
    const granted = await store.openSession({
      sessionId,
      holderId: `holder of ${sessionId}`,
      ttlMs,
      quietAfterMs,
      events,
      limitMs: LIMIT_MS,
    });
    const newAttempt = (): string => `${sessionId}.${++this.#attempts}`;
    const sleep = (ms: number): Promise<void> => this.harness.sleep(ms);
    return new Client({ store, sessionId, ttlMs: granted.ttlMs, newAttempt, events, sleep });
  }

  /** Opens a session with the harness's short ttl, for tests in which it expires. */
  shortSession(store: Store, sessionId: string): Promise<Client> {
    return this.session(store, sessionId, this.ttlMs);
  }

  /** A ttl for sessions that must not expire during the test, even on a busy machine. */
  get longMs(): number {
    return this.ttlMs * 10;
  }

  /** Waits until a session that was confirmed just now has expired. */
  async expire(store: Store, ttlMs: number = this.ttlMs): Promise<void> {
    await this.harness.sleep(ttlMs + store.guarantees.expiryLagMs + 1);
  }

  async close(): Promise<void> {
    for (const store of this.#stores) await store.close().catch(() => undefined);
    await this.harness.close();
  }
}

export const LIMIT_MS = 5_000;
const POLL_MS = 5;

/** What the store has reported about a session. */
class EventLog implements SessionEvents {
  readonly grants: Grant[] = [];
  readonly losses: LeaseRef[] = [];
  readonly wishes: LeaseRef[] = [];

  granted(grant: Grant): void {
    this.grants.push(grant);
  }

  lost(ref: LeaseRef): void {
    this.losses.push(ref);
  }

  wanted(ref: LeaseRef): void {
    this.wishes.push(ref);
  }
}

interface ClientParts {
  readonly store: Store;
  readonly sessionId: string;
  readonly ttlMs: number;
  readonly newAttempt: () => string;
  readonly events: EventLog;
  /** Lets time pass for the backend and its clients. */
  readonly sleep: StoreHarness["sleep"];
}

/** A session at a store, with a short method for each request. */
export class Client {
  readonly store: Store;
  readonly sessionId: string;
  readonly ttlMs: number;
  readonly newAttempt: () => string;
  readonly events: EventLog;
  readonly #sleep: ClientParts["sleep"];

  constructor({ store, sessionId, ttlMs, newAttempt, events, sleep }: ClientParts) {
    this.store = store;
    this.sessionId = sessionId;
    this.ttlMs = ttlMs;
    this.newAttempt = newAttempt;
    this.events = events;
    this.#sleep = sleep;
  }

  /** Lets time pass until the store has reported what `find` looks for. */
  async reported<T>(what: string, find: (events: EventLog) => T | undefined): Promise<T> {
    for (let waitedMs = 0; waitedMs < LIMIT_MS; waitedMs += POLL_MS) {
      const found = find(this.events);
      if (found !== undefined) return found;
      await this.#sleep(POLL_MS);
    }
    throw new Error(`${this.sessionId} was not notified: ${what}`);
  }

  ask(
    resource: string,
    options: { attempt?: string; queue?: boolean; value?: unknown; rank?: number | undefined } = {},
  ): Promise<GrantOutcome> {
    const { sessionId } = this;
    const { attempt = this.newAttempt(), queue = false, value, rank } = options;
    const holderId = `holder of ${sessionId}`;
    return this.store.grant({
      sessionId,
      resource,
      attempt,
      holderId,
      queue,
      rank,
      value,
      limitMs: LIMIT_MS,
    });
  }

  /** Requests a grant and fails the test if it is not granted. */
  async take(
    resource: string,
    options: { attempt?: string; queue?: boolean; value?: unknown } = {},
  ): Promise<bigint> {
    const outcome = await this.ask(resource, options);
    if (outcome.kind === "granted") return outcome.token;
    throw new Error(`${this.sessionId} expected a grant of "${resource}", got ${outcome.kind}`);
  }

  /** Enters the queue and fails the test if that is not what happens. Returns the attempt. */
  async queue(resource: string, rank?: number): Promise<string> {
    const attempt = this.newAttempt();
    const { kind } = await this.ask(resource, { attempt, queue: true, rank });
    if (kind === "queued") return attempt;
    throw new Error(`${this.sessionId} expected to be queued for "${resource}", got ${kind}`);
  }

  /** Resolves with the token when a queued attempt is granted. */
  async granted(resource: string, attempt: string): Promise<bigint> {
    const grant = await this.reported(`the grant of "${resource}"`, ({ grants }) =>
      grants.find((each) => each.attempt === attempt),
    );
    return grant.token;
  }

  async release(resource: string, token: bigint, preferred?: string): Promise<string> {
    const { sessionId } = this;
    const request = { sessionId, resource, token, preferred, limitMs: LIMIT_MS };
    return (await this.store.release(request)).kind;
  }

  renew(
    withdrawn: RenewRequest["withdrawn"] = [],
    acknowledged: readonly LeaseRef[] = [],
    accepted: readonly LeaseRef[] = [],
  ): ReturnType<Store["renew"]> {
    const { sessionId } = this;
    return this.store.renew({ sessionId, withdrawn, acknowledged, accepted, limitMs: LIMIT_MS });
  }

  withdraw(resource: string, attempt: string): Promise<void> {
    return this.store.withdraw({ sessionId: this.sessionId, resource, attempt, limitMs: LIMIT_MS });
  }

  end(): Promise<void> {
    return this.store.endSession({ sessionId: this.sessionId, limitMs: LIMIT_MS });
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

/** Fails with `rule`, which states what is required of the store. */
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
