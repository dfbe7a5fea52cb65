// What the record engine requires of a backend: read with a version, and write if the version is
// unchanged. Read this file first when you write a client for Consul KV, Kubernetes Leases,
// DynamoDB, S3, NATS KV or MySQL. The engine does everything else: sessions, leases, queues,
// expiry, tokens, and answers that were lost.
//
// Safety depends on three rules. All other rules of this file concern availability.
// - A write with a version is applied only if the record still has that version. A write without
//   one is applied only if the record does not exist. Both are decided atomically by the backend.
// - No two states of a key ever have the same version, even after the record was deleted and
//   created again. A backend without versions of its own stores the `nonce` of the write as the
//   version.
// - A write that may have been applied, or may still be, is never reported as a conflict or as
//   `applied: "no"`.

/** A connection to a backend that keeps records. */
export interface RecordBackend {
  readonly facts: RecordFacts;

  /**
   * Reads a record. Linearizable: it reflects every write that was confirmed before. Resolves with
   * undefined if the record does not exist. Throws StoreUnavailableError with `applied: "no"`.
   */
  read(key: string, limitMs: number): Promise<VersionedRecord | undefined>;

  /**
   * Writes a record if its version is unchanged. Throws StoreUnavailableError with `applied: "no"`
   * if the backend has certainly not applied the write and never will (it could not be sent, or was
   * rejected). Throws it with `applied: "unknown"` after a timeout, a broken connection or a server
   * error. The client must not repeat a write: the engine does, and compares nonces.
   */
  write(request: WriteRequest): Promise<WriteOutcome>;

  /**
   * One page of the records whose keys begin with `prefix`, in the order of the UTF-8 bytes of
   * their keys. May be behind recent writes. Throws as `read` does. A backend that cannot list in
   * this order reads everything and calls `toPage`.
   */
  list(request: ListRecordsRequest): Promise<RecordPage>;

  /**
   * Deletes a record unconditionally. The engine deletes only the records of sessions that have
   * ended. Absent: such records stay. Throws as `write` does.
   */
  remove?(key: string, limitMs: number): Promise<void>;

  /**
   * Calls back after records have changed. Best effort: calls may come late, twice, in another
   * order or not at all. The client also calls back, without a change, when the subscription has
   * become active and after an interruption. Returns the function that ends the subscription, which
   * does not throw. Absent: the engine polls.
   */
  subscribe?(scope: Scope, onChange: (change?: RecordChange) => void): () => void;

  /** Frees connections and timers. Pending requests fail. Subscriptions end. */
  close(): Promise<void>;
}

/** What the engine needs to know about a backend. Constant. */
export interface RecordFacts {
  /** The name of the store in `guarantees` and in error messages, such as "consul". */
  readonly store: string;
  /** `guarantees.tokenFalls`: when a token could be lower than, or equal to, an earlier one. */
  readonly tokenFalls: string;
  /** Whether confirmed writes survive a crash of the backend. */
  readonly durable: boolean;
  /** The largest body that the backend accepts, in bytes of UTF-8. */
  readonly maxBodyBytes: number;
  /**
   * How often to poll at most and at least, in milliseconds. Affects how fast waiters are notified
   * on a backend without `subscribe`, and how fast every waiter notices a crash. The engine starts
   * with `minPollMs` and slows down while nothing changes.
   */
  readonly minPollMs: number;
  readonly maxPollMs: number;
}

/** A record as it was read. */
export interface VersionedRecord {
  /** The text that was written. It contains no characters that JSON does not allow. */
  readonly body: string;
  /** The backend's version of this state of the record: an etag, revision or index, as text. */
  readonly version: string;
  /**
   * How long before the read this state was written, in milliseconds, by the backend's own clock at
   * both times. Never more than the true age: a client rounds down, and subtracts the resolution of
   * the clock. Absent if the backend does not say. Used only if the user states `clockErrorMs`.
   */
  readonly ageMs?: number | undefined;
}

export interface WriteRequest {
  readonly key: string;
  /** The new body. It contains the nonce, so no two writes have equal bodies. */
  readonly body: string;
  /** The version that the record must still have. Undefined: the record must not exist. */
  readonly version: string | undefined;
  /** Identifies this write. A repeated write has the same nonce and the same body. */
  readonly nonce: string;
  /** The client must have answered or thrown after this many milliseconds. */
  readonly limitMs: number;
}

export type WriteOutcome =
  /** Applied. `version` is the version of the new state. */
  | { readonly kind: "written"; readonly version: string }
  /**
   * Not applied: the record has another version, exists, or does not exist. `found` is its current
   * state if the backend returned it with the rejection, which saves the engine a read.
   */
  | {
      readonly kind: "conflict";
      readonly found?: { readonly record: VersionedRecord | undefined } | undefined;
    };

export interface ListRecordsRequest {
  readonly prefix: string;
  /** Start after this key. Absent: start with the first key. */
  readonly after?: string | undefined;
  /** The most records in the page. */
  readonly limit: number;
  readonly limitMs: number;
}

export interface ListedRecord extends VersionedRecord {
  readonly key: string;
}

export interface RecordPage {
  readonly records: readonly ListedRecord[];
  /** Pass as `after` for the next page. Absent on the last page. */
  readonly next?: string | undefined;
}

/** One key, or all keys that begin with a prefix. */
export type Scope = { readonly key: string } | { readonly prefix: string };

/** The record of a key has changed to this state. Without `record`, the engine reads it. */
export interface RecordChange {
  readonly key: string;
  readonly record?: VersionedRecord | undefined;
}

/**
 * The keys that the engine uses are `session/<id>` and `lease/<resource>`. Ids of Tenure have only
 * the characters `0-9a-f`, but a hostile record may name any text of up to 256 characters. A
 * resource is any text of up to 512 bytes. A client maps keys to names that its backend accepts;
 * different keys must have different names, and `list` must return the keys.
 */
export const SESSION_PREFIX = "session/";
export const LEASE_PREFIX = "lease/";

/** Makes a page from all records of a backend, for clients that can only list everything. */
export function toPage(
  all: readonly ListedRecord[],
  { prefix, after, limit }: ListRecordsRequest,
): RecordPage {
  const isAfter = (key: string): boolean => after === undefined || compareKeys(key, after) > 0;
  const found = all.filter(({ key }) => key.startsWith(prefix) && isAfter(key));
  const records = found.sort((one, other) => compareKeys(one.key, other.key)).slice(0, limit);
  return { records, next: found.length > limit ? records.at(-1)?.key : undefined };
}

/** Compares keys by their UTF-8 bytes. */
function compareKeys(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
