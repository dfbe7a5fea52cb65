// The store's own connection, for requests that belong to no Tenure session: reads, lists, watches
// and revocations. Its ZooKeeper session owns no nodes. If the server ends it because it was idle,
// a new one is opened.

import type { Clock } from "../../async/clock.ts";
import { DOCS } from "../../core/docs.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import { type Call, within } from "./call.ts";
import { SessionOverError } from "./failures.ts";
import { Link } from "./link.ts";
import { CREATE, create, ERROR, getChildren2 } from "./messages.ts";
import type { Settings } from "./options.ts";

const TIMEOUT_MS = 30_000;

export class Reader {
  readonly #settings: Settings;
  readonly #clock: Clock;
  readonly #listeners = new Set<(path: string | undefined) => void>();
  #link: Link;
  #closed: Error | undefined;

  constructor(settings: Settings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
    this.#link = this.#newLink();
  }

  /** A session that is used this often does not expire. */
  get keepAliveMs(): number {
    return this.#link.timeoutMs / 3;
  }

  /** Runs `work` within the limit, and once more on a new session if the old one had expired. */
  async run<T>(limitMs: number, work: (call: Call) => Promise<T>): Promise<T> {
    const startedAt = this.#clock.now();
    try {
      return await within(this.#clock, this.#live(), limitMs, work);
    } catch (error) {
      if (!(error instanceof SessionOverError)) throw error;
      const leftMs = Math.max(1, startedAt + limitMs - this.#clock.now());
      return within(this.#clock, this.#live(), leftMs, work);
    }
  }

  /**
   * Calls back with the path of every watched node that changes, and with undefined if changes may
   * have been missed. Returns the function that removes the callback.
   */
  listen(listener: (path: string | undefined) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(reason: Error): void {
    this.#closed = reason;
    this.#link.close(reason, true);
  }

  #live(): Link {
    if (this.#link.isOver && this.#closed === undefined) this.#link = this.#newLink();
    return this.#link;
  }

  #newLink(): Link {
    const settings = { ...this.#settings.link, prefersLeader: false };
    const link = new Link(settings, this.#clock, TIMEOUT_MS);
    const notify = (path: string | undefined): void => {
      for (const listener of [...this.#listeners]) listener(path);
    };
    link.onEvent = ({ path }) => notify(path);
    link.onLost = () => notify(undefined);
    return link;
  }
}

/**
 * Connects, and creates and reads the nodes that the caller needs, all within `connectMs`. An error
 * names the setting to change.
 */
export async function openReader(
  settings: Settings,
  clock: Clock,
  needed: readonly string[],
): Promise<Reader> {
  const reader = new Reader(settings, clock);
  try {
    await reader.run(settings.link.connectMs, (call) => prepare(call, settings, needed));
    return reader;
  } catch (error) {
    reader.close(new Error("opening the store failed"));
    throw error;
  }
}

async function prepare(call: Call, settings: Settings, needed: readonly string[]): Promise<void> {
  const { names, acl } = settings;
  const parts = names.root.split("/").filter((part) => part !== "");
  const above = parts.map((_, index) => `/${parts.slice(0, index + 1).join("/")}`);
  const paths = [...above, ...needed];
  const flags = CREATE.persistent;
  const replies = await Promise.all(
    paths.map((path) => call.send(create({ path, data: "", acl, flags }))),
  );
  for (const [index, { error }] of replies.entries()) {
    const path = paths[index] ?? "";
    // A user that may not create the nodes above may still use those that exist.
    const isAllowed = error === ERROR.noAuth && !needed.includes(path);
    if (error !== 0 && error !== ERROR.nodeExists && !isAllowed) throw refusal(error, path, call);
  }
  // A node that existed before may not be readable.
  for (const path of needed) {
    const { error } = await call.send(getChildren2(path));
    if (error !== 0) throw refusal(error, path, call);
  }
}

function refusal(error: number, path: string, call: Call): Error {
  if (error === ERROR.noAuth) {
    return new StoreUnusableError(
      `ZooKeeper at ${call.place} does not allow "${path}" to be created or read. Name the user and password it belongs to in the URL (zookeeper://user:password@host), or choose another prefix; ${DOCS}/stores/zookeeper.md has the permissions needed.`,
    );
  }
  if (error === ERROR.noNode) {
    return new StoreUnusableError(
      `The root of "${path}" is missing at ZooKeeper at ${call.place}, and may not be created there (or the server has a chroot of its own). Create it, or name another prefix.`,
    );
  }
  return call.refusal(error);
}
