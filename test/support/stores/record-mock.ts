// A mock of a backend with conditional writes: records in memory, with the faults that such
// backends show. Each fault applies to the next requests, as often as the test says. The mock also
// counts requests.
import { createHash } from "node:crypto";
import { StoreUnavailableError } from "../../../src/core/errors.ts";
import {
  type RecordBackend,
  type RecordChange,
  type RecordFacts,
  type Scope,
  toPage,
  type VersionedRecord,
  type WriteOutcome,
  type WriteRequest,
} from "../../../src/stores/record/backend.ts";

/** How many of the next requests show each fault. */
interface Faults {
  /** Reads return the state before the last change. */
  staleReads: number;
  /** Reads fail. */
  failedReads: number;
  /** Writes are applied, and their answer is lost. */
  lostReplies: number;
  /** Writes are not applied, and their answer is lost. */
  lostWrites: number;
  /** Writes are kept back until `deliver()`, and their answer is lost. */
  delayedWrites: number;
  /** Writes fail with the information that they were not applied. */
  rejectedWrites: number;
  /** Pushes are dropped. */
  lostPushes: number;
}

export interface MockOptions {
  /** Whether the backend notifies its clients of changes. @default false */
  readonly push?: boolean;
  /** Whether a push contains the record. @default true */
  readonly pushRecords?: boolean;
  /** Whether a conflict contains the current record. @default false */
  readonly conflictRecords?: boolean;
  /** Whether the version is a digest of the body, as the ETag of S3. @default false */
  readonly digests?: boolean;
  readonly facts?: Partial<RecordFacts>;
}

type SentWrite = WriteRequest & { readonly by: string | undefined };

export interface LoggedWrite {
  readonly key: string;
  readonly body: string;
  /** The time of `now()`, if a test sets that. */
  readonly at: number;
  /** The client that sent it. Undefined: the test itself. */
  readonly by?: string | undefined;
}

interface Listener {
  readonly scope: Scope;
  readonly onChange: (change?: RecordChange) => void;
}

const FACTS: RecordFacts = {
  store: "mock",
  tokenFalls: "when the mock is replaced and the clock was set back",
  durable: true,
  maxBodyBytes: 400_000,
  minPollMs: 50,
  maxPollMs: 1_000,
};

export class RecordMock {
  readonly records: Map<string, VersionedRecord> = new Map();
  /** Every write that was applied, oldest first. The body of a deletion is "null". */
  readonly log: LoggedWrite[] = [];
  readonly counts: { reads: number; writes: number } = { reads: 0, writes: 0 };
  readonly faults: Faults = {
    staleReads: 0,
    failedReads: 0,
    lostReplies: 0,
    lostWrites: 0,
    delayedWrites: 0,
    rejectedWrites: 0,
    lostPushes: 0,
  };
  /** Pushes are collected here instead of being delivered, if a test sets it. */
  heldPushes: (() => void)[] | undefined;
  now: () => number = () => 0;
  /** Called before each request is processed. */
  before: ((kind: "read" | "write", key: string) => unknown) | undefined;
  /** The age that reads report. */
  ageMs: number | undefined;
  readonly #options: MockOptions;
  readonly #listeners = new Set<Listener>();
  readonly #former = new Map<string, VersionedRecord | undefined>();
  #delayed: SentWrite[] = [];
  #versions = 0;

  constructor(options: MockOptions = {}) {
    this.#options = options;
  }

  /** A client of its own for each process. */
  connect(by?: string): RecordBackend {
    const { push = false } = this.#options;
    return {
      facts: { ...FACTS, ...this.#options.facts },
      read: async (key) => {
        await this.before?.("read", key);
        return this.#read(key);
      },
      write: async (request) => {
        await this.before?.("write", request.key);
        return this.#write({ ...request, by });
      },
      list: async (request) => {
        const all = [...this.records].map(([key, record]) => ({ key, ...record }));
        return toPage(all, request);
      },
      remove: async (key) => {
        this.records.delete(key);
        this.log.push({ key, body: "null", by, at: this.now() });
      },
      ...(push && { subscribe: (scope, onChange) => this.#subscribe(scope, onChange) }),
      close: async () => undefined,
    };
  }

  /** Changes a record from outside, whatever its version is. */
  put(key: string, body: string, by?: string): void {
    this.#former.set(key, this.records.get(key));
    this.#versions += 1;
    const version = this.#options.digests ? digest(body) : String(this.#versions);
    this.records.set(key, { body, version });
    this.log.push({ key, body, by, at: this.now() });
    this.#notify(key);
  }

  /** The fields of a record. */
  fields(key: string): Record<string, unknown> {
    return JSON.parse(this.records.get(key)?.body ?? "{}");
  }

  /** The delayed writes arrive. Returns how many are applied. */
  deliver(): number {
    const delayed = this.#delayed;
    this.#delayed = [];
    return delayed.filter((request) => this.#apply(request).kind === "written").length;
  }

  #read(key: string): VersionedRecord | undefined {
    this.counts.reads += 1;
    if (this.#take("failedReads")) throw unavailable("no");
    const record = this.#take("staleReads") ? this.#former.get(key) : this.records.get(key);
    return record && { ...record, ageMs: this.ageMs };
  }

  #write(request: SentWrite): WriteOutcome {
    this.counts.writes += 1;
    if (this.#take("rejectedWrites")) throw unavailable("no");
    if (this.#take("lostWrites")) throw unavailable("unknown");
    if (this.#take("delayedWrites")) {
      this.#delayed.push(request);
      throw unavailable("unknown");
    }
    const outcome = this.#apply(request);
    if (this.#take("lostReplies")) throw unavailable("unknown");
    return outcome;
  }

  #apply({ key, body, version, by }: SentWrite): WriteOutcome {
    const found = this.records.get(key);
    if (found?.version !== version)
      return this.#options.conflictRecords
        ? { kind: "conflict", found: { record: found } }
        : { kind: "conflict" };
    this.put(key, body, by);
    return { kind: "written", version: this.records.get(key)?.version ?? "" };
  }

  #subscribe(scope: Scope, onChange: Listener["onChange"]): () => void {
    const listener = { scope, onChange };
    this.#listeners.add(listener);
    // The subscription is active.
    queueMicrotask(() => this.#listeners.has(listener) && onChange());
    return () => this.#listeners.delete(listener);
  }

  #notify(key: string): void {
    const record = this.records.get(key);
    const change = this.#options.pushRecords === false ? { key } : { key, record };
    for (const listener of this.#listeners) {
      const { scope } = listener;
      const isMeant = "key" in scope ? scope.key === key : key.startsWith(scope.prefix);
      if (!isMeant || this.#take("lostPushes")) continue;
      const push = (): void => {
        if (this.#listeners.has(listener)) listener.onChange(change);
      };
      if (this.heldPushes === undefined) queueMicrotask(push);
      else this.heldPushes.push(push);
    }
  }

  #take(fault: keyof Faults): boolean {
    if (this.faults[fault] === 0) return false;
    this.faults[fault] -= 1;
    return true;
  }
}

function unavailable(applied: "no" | "unknown"): StoreUnavailableError {
  return new StoreUnavailableError("The mock did not answer.", { applied });
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
