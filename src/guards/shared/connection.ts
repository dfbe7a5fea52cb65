// A connection that a guard makes for itself, when it is first needed. One that could not be made is tried again by the
// next call. What a store would call unavailable is here the guard that cannot be used.

import { ClosedError, GuardUnavailableError, isTenureError } from "../../core/errors.ts";

export class LazyConnection<T> {
  readonly #open: () => Promise<T>;
  readonly #end: (opened: T) => void;
  readonly #name: string;
  #opened: Promise<T> | undefined;
  #isClosed = false;

  /** `name` is for people: "The etcd guard". */
  constructor(name: string, open: () => Promise<T>, end: (opened: T) => void) {
    this.#name = name;
    this.#open = open;
    this.#end = end;
  }

  async get(): Promise<T> {
    if (this.#isClosed) throw ClosedError.from({ what: this.#name });
    this.#opened ??= this.#open().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    const opened = await this.#opened;
    if (this.#isClosed) throw ClosedError.from({ what: this.#name });
    return opened;
  }

  /** Also ends one that is still being made. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const opened = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    if (opened !== undefined) this.#end(opened);
  }
}

/** Whether the request that failed could have written something. */
export type Reach = "reads" | "writes";

/** A request of a guard: a failure of the connection says whether something may have been written. */
export async function runRequest<T>(
  resource: string,
  reach: Reach,
  request: () => Promise<T>,
): Promise<T> {
  try {
    return await request();
  } catch (cause) {
    if (!isTenureError(cause, "STORE_UNAVAILABLE")) throw cause;
    // A write whose answer never came may have been done: that is "unknown", never "no".
    const applied = reach === "reads" ? "no" : cause.applied;
    const detail = cause.message.replace(/\.$/, "");
    throw GuardUnavailableError.from({ resource, detail, applied, cause });
  }
}
