// What a store reports about one session, for tests that wait for a report.

import type { Grant, LeaseRef, SessionEvents } from "../../../src/stores/contract.ts";

export class RecordedEvents implements SessionEvents {
  readonly grants: Grant[] = [];
  readonly losses: LeaseRef[] = [];
  readonly wishes: LeaseRef[] = [];
  #wake: (() => void)[] = [];

  granted(grant: Grant): void {
    this.#add(this.grants, grant);
  }

  lost(ref: LeaseRef): void {
    this.#add(this.losses, ref);
  }

  wanted(ref: LeaseRef): void {
    this.#add(this.wishes, ref);
  }

  /** Resolves with the token when the grant of this attempt is reported. */
  async tokenOf(attempt: string): Promise<bigint> {
    for (;;) {
      const grant = this.grants.find((each) => each.attempt === attempt);
      if (grant !== undefined) return grant.token;
      await this.next();
    }
  }

  /** Resolves with the next report. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #add<T>(list: T[], item: T): void {
    list.push(item);
    for (const resolve of this.#wake.splice(0)) resolve();
  }
}
