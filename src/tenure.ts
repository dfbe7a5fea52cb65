// The object that `connect()` returns: leases from holder/, elections from election/, scheduled runs from once/, closed
// together.

import { Election, type ElectionOptions } from "./election/election.ts";
import { checkElection } from "./election/options.ts";
import { Leases, type LeasesParts } from "./holder/leases.ts";
import { type OnceOptions, type OnceResult, type OnceWork, once } from "./once/once.ts";

export class Tenure extends Leases {
  readonly #parts: LeasesParts;
  readonly #elections = new Set<Election>();

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
    const parts = { ...this.#parts, leases: this, marginMs, limitMs };
    const election = new Election(parts, name, options);
    this.#elections.add(election);
    return election;
  }

  /**
   * One run per fire of a schedule, across all machines: `work` runs under the lease on `key` on the first that comes, and
   * the others get `ran: false`. The claim is held until the fire's window is over, not until `work` returns; it stays when
   * `work` throws (its error comes back unchanged), when the process dies and after close(): at most one run.
   */
  once<T>(key: string, options: OnceOptions, work: OnceWork<T>): Promise<OnceResult<T>> {
    return once({ ...this.#parts, leases: this }, key, options, work);
  }

  protected override async stopUsers(drainMs: number): Promise<void> {
    await Promise.all([...this.#elections].map((election) => election.stop({ drainMs })));
  }
}
