// The object that `connect()` returns: leases from holder/, elections from election/, closed together.

import { checkCallbacks, Election, type ElectionOptions } from "./election/election.ts";
import { Leases, type LeasesParts } from "./holder/leases.ts";

export interface TenureParts extends LeasesParts {
  /** Where failures go that no caller waits for. */
  readonly warn: (message: string, error?: unknown) => void;
}

export class Tenure extends Leases {
  readonly #parts: TenureParts;
  readonly #elections = new Set<Election>();

  constructor(parts: TenureParts) {
    super(parts);
    this.#parts = parts;
  }

  /**
   * A candidate for leadership under this name. Nothing happens before `start()`; `leader()` and `observe()` work without
   * it, for those who only follow.
   */
  election(name: string, options: ElectionOptions): Election {
    checkCallbacks(options);
    const { marginMs } = this.plan(name, options).timing;
    const { clock, random, warn } = this.#parts;
    const election = new Election({ leases: this, clock, random, marginMs, warn }, name, options);
    this.#elections.add(election);
    return election;
  }

  protected override async stopUsers(drainMs: number): Promise<void> {
    await Promise.all([...this.#elections].map((election) => election.stop({ drainMs })));
  }
}
