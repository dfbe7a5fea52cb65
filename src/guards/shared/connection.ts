// The connection of a guard that has its own client (etcd, ZooKeeper) or file (the ledger). It is
// opened on first use, and a failed attempt is repeated by the next call. Errors of a client, which
// speak of a store, are translated into GuardUnavailableError.

import { ClosedError, GuardUnavailableError, isTenureError } from "../../core/errors.ts";

export class LazyConnection<T> {
  readonly #open: () => Promise<T>;
  readonly #end: (opened: T) => void;
  readonly #name: string;
  #opened: Promise<T> | undefined;
  #isClosed = false;

  /** `name` starts the message of ClosedError: "The etcd guard". */
  constructor(name: string, open: () => Promise<T>, end: (opened: T) => void) {
    this.#name = name;
    this.#open = open;
    this.#end = end;
  }

  async get(): Promise<T> {
    this.throwIfClosed();
    this.#opened ??= this.#open().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    const opened = await this.#opened;
    this.throwIfClosed();
    return opened;
  }

  throwIfClosed(): void {
    if (this.#isClosed) throw ClosedError.from({ what: this.#name });
  }

  /** Also closes a connection that is still being opened. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const opened = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    if (opened !== undefined) this.#end(opened);
  }
}

/** Whether a request only reads or may write. */
export type Reach = "reads" | "writes";

/**
 * Runs a request. If the client fails, GuardUnavailableError says whether something may have been
 * written.
 */
export async function runRequest<T>(
  resource: string,
  reach: Reach,
  request: () => Promise<T>,
): Promise<T> {
  try {
    return await request();
  } catch (cause) {
    if (!isTenureError(cause, "STORE_UNAVAILABLE")) throw cause;
    // A write without a reply may have been done, so its outcome is "unknown" and never "no".
    const applied = reach === "reads" ? "no" : cause.applied;
    const detail = cause.message.replace(/\.$/, "");
    throw GuardUnavailableError.from({ resource, detail, applied, cause });
  }
}
