// A reentrant acquisition: the lease that the calling code already works under, seen by an inner
// caller. Everything is delegated to the outer lease except its end, which belongs to the outermost
// acquisition.

import { runUnder } from "../async/context.ts";
import { enterLastingGuard, onLastingGuard } from "../async/lasting-guard.ts";
import { checkOptionNames } from "../core/options.ts";
import { checkHandover, type Handover, type HandoverOptions } from "./handover.ts";
import type { HeldLease } from "./held-lease.ts";
import { type Lease, RELEASE_OPTIONS, type ReleaseOptions, type ReleaseResult } from "./lease.ts";

export class NestedLease implements Lease {
  readonly resource: string;
  readonly token: bigint;
  readonly #outer: HeldLease;

  constructor(outer: HeldLease) {
    this.#outer = outer;
    this.resource = outer.resource;
    this.token = outer.token;
    onLastingGuard(this, () => enterLastingGuard(outer));
  }

  get signal(): AbortSignal {
    return this.#outer.signal;
  }

  get wanted(): AbortSignal {
    return this.#outer.wanted;
  }

  get safeUntil(): number {
    return this.#outer.safeUntil;
  }

  check(): bigint {
    return this.#outer.check();
  }

  confirmed(): Promise<void> {
    return this.#outer.confirmed();
  }

  run<T>(work: (lease: Lease) => T | Promise<T>): Promise<T> {
    return this.#outer.run(() => work(this));
  }

  /**
   * Runs `work` as a part of the outer work instead of as work of its own. It therefore also runs
   * while the lease drains: the outer work could not finish without it.
   */
  async runInside<T>(work: (lease: Lease) => T | Promise<T>): Promise<T> {
    this.check();
    return await runUnder(this.#outer, () => work(this));
  }

  async release(options: ReleaseOptions = {}): Promise<ReleaseResult> {
    checkOptionNames("release()", options, RELEASE_OPTIONS);
    return "kept";
  }

  async handover(options: HandoverOptions): Promise<Handover> {
    checkHandover(options);
    return { handedOver: false, release: "kept", waitedMs: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
