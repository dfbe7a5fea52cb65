// The object that `connect()` returns: leases from holder/, elections from election/, scheduled runs from once/, closed
// together.

import { ClosedError } from "./core/errors.ts";
import { Election, type ElectionOptions } from "./election/election.ts";
import { checkElection } from "./election/options.ts";
import { Leases, type LeasesParts } from "./holder/leases.ts";
import { type OnceOptions, type OnceResult, type OnceWork, once } from "./once/once.ts";

export class Tenure extends Leases {
  readonly #parts: LeasesParts;
  /** Those that have been started and have not stopped. */
  readonly #elections = new Set<Election>();
  #isClosing = false;

  constructor(parts: LeasesParts) {
    super(parts);
    this.#parts = parts;
  }

  /**
   * A candidate for leadership under this name. Nothing happens before `start()`; `leader()` and `observe()` work without
   * it, for those who only follow.
   */
  election(name: string, options: ElectionOptions): Election {
    checkElection(options);
    const { marginMs, roundTripMs: limitMs } = this.plan(name, options).timing;
    const parts = {
      ...{ ...this.#parts, leases: this, marginMs, limitMs },
      onStart: (election: Election) => this.#keep(election),
      onStopped: (election: Election) => void this.#elections.delete(election),
    };
    return new Election(parts, name, options);
  }

  /**
   * One run per fire of a schedule, across all machines: `work` runs under the lease on `key` on the first that comes, and
   * the others get `ran: false`. The claim is held until the fire's window is over, not until `work` returns; it stays when
   * `work` throws (its error comes back unchanged), when the process dies and after close(): at most one run.
   */
  once<T>(key: string, options: OnceOptions, work: OnceWork<T>): Promise<OnceResult<T>> {
    return once({ ...this.#parts, leases: this }, key, options, work);
  }

  #keep(election: Election): void {
    if (this.#isClosing) throw ClosedError.from({ what: "This Tenure" });
    this.#elections.add(election);
  }

  protected override async stopUsers(drainMs: number): Promise<void> {
    this.#isClosing = true;
    await Promise.all([...this.#elections].map((election) => election.stop({ drainMs })));
  }
}
