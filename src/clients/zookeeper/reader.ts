// The store's own connection, for what concerns no session of ours: reading, listing, watching, revoking. Its ZooKeeper
// session owns nothing; when the server ended it for lack of use, a new one takes its place.

import type { Clock } from "../../async/clock.ts";
import { type Call, within } from "./call.ts";
import { SessionOverError } from "./failures.ts";
import { Link, type LinkSettings } from "./link.ts";

const TIMEOUT_MS = 30_000;

export class Reader {
  readonly #settings: LinkSettings;
  readonly #clock: Clock;
  readonly #listeners = new Set<(path: string | undefined) => void>();
  #link: Link;
  #closed: Error | undefined;

  constructor(settings: LinkSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
    this.#link = this.#newLink();
  }

  /** Asked this often, its session does not expire. */
  get keepAliveMs(): number {
    return this.#link.timeoutMs / 3;
  }

  /** Runs `work` within the limit, a second time on a new session where the old one had expired. */
  async run<T>(limitMs: number, work: (call: Call) => Promise<T>): Promise<T> {
    const begunAt = this.#clock.now();
    try {
      return await within(this.#clock, this.#living(), limitMs, work);
    } catch (error) {
      if (!(error instanceof SessionOverError)) throw error;
      const leftMs = Math.max(1, begunAt + limitMs - this.#clock.now());
      return within(this.#clock, this.#living(), leftMs, work);
    }
  }

  /** Calls back with the path of every node that a watch tells of, and with undefined when some may have been missed. */
  listen(hear: (path: string | undefined) => void): () => void {
    this.#listeners.add(hear);
    return () => this.#listeners.delete(hear);
  }

  close(reason: Error): void {
    this.#closed = reason;
    this.#link.close(reason, true);
  }

  #living(): Link {
    if (this.#link.isOver && this.#closed === undefined) this.#link = this.#newLink();
    return this.#link;
  }

  #newLink(): Link {
    const link = new Link(this.#settings, this.#clock, TIMEOUT_MS);
    const tell = (path: string | undefined): void => {
      for (const hear of [...this.#listeners]) hear(path);
    };
    link.onEvent = ({ path }) => tell(path);
    link.onLost = () => tell(undefined);
    return link;
  }
}
