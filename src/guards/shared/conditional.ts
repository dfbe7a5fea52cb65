// The guard rule for resources that cannot compare tokens by size, only write on the condition that
// a value is unchanged (etcd, ZooKeeper). Reads the highest token, decides in this process, writes
// on the condition that the highest is unchanged, and starts again if it was not. The highest is
// cached, so a holder that writes repeatedly reads it once, and each further write is one round
// trip.

import { GuardUnavailableError } from "../../core/errors.ts";
import { admit, type TokenSource } from "../guard.ts";

/**
 * The highest token when it was last read. `mark` is what the conditional write compares, such as a
 * version.
 */
export interface Seen<Mark> {
  readonly highest: bigint | undefined;
  readonly mark: Mark;
}

export interface Conditional<Mark, Answer> {
  read(): Promise<Seen<Mark>>;
  /**
   * One atomic step: if the highest is still as seen, raises it to the token and writes. Otherwise
   * does nothing and resolves with undefined.
   */
  write(
    token: bigint,
    seen: Seen<Mark>,
  ): Promise<{ readonly answer: Answer; readonly seen: Seen<Mark> } | undefined>;
}

/** Every failed round means that another writer succeeded. This many in a row point to a fault. */
const ROUNDS_MAX = 1_000;
/** The size of the cache. A resource that was dropped from it costs one more request. */
const KNOWN_MAX = 10_000;

export class ConditionalWrites<Mark> {
  readonly #known = new Map<string, Seen<Mark>>();

  async run<Answer>(source: TokenSource, step: Conditional<Mark, Answer>): Promise<Answer> {
    const { resource } = source;
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const seen = this.#known.get(resource) ?? (await step.read());
      // This is correct with an outdated value, too: the highest never falls, so a token that was
      // stale then is stale now. After a reset, this guard rejects valid tokens until its process
      // is restarted. It never admits a stale one, because the write is conditional on the cached
      // value.
      const token = admit(source, seen.highest);
      const done = await step.write(token, seen);
      if (done !== undefined) {
        this.#remember(resource, done.seen);
        return done.answer;
      }
      this.#known.delete(resource);
    }
    const detail = `other writers changed its highest token between read and write, ${ROUNDS_MAX} times in a row. Nothing was written`;
    throw GuardUnavailableError.from({ resource, detail, applied: "no" });
  }

  #remember(resource: string, seen: Seen<Mark>): void {
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(resource, seen);
  }
}
