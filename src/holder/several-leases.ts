// The calls of a Tenure that name several resources: acquireAll(), acquireAny() and withLeases().
// This file checks the arguments; several.ts acquires.

import { checkSignal } from "../async/signals.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames } from "../core/options.ts";
import type { HeldLease } from "./held-lease.ts";
import type { Lease } from "./lease.ts";
import { alreadyHeld, type Leases } from "./leases.ts";
import { SEVERAL_OPTIONS, type SeveralOptions } from "./options.ts";
import { acquireAll, acquireAny, checkResources, releaseAll, runUnderAll } from "./several.ts";

/** The work that withLeases() runs. */
type Work<T> = (leases: readonly Lease[]) => T | Promise<T>;
type Plan = [names: readonly string[], options: SeveralOptions & { readonly waitMs: number }];

export class SeveralLeases {
  readonly #leases: Leases;

  constructor(leases: Leases) {
    this.#leases = leases;
  }

  async acquireAll(
    resources: readonly string[],
    options: SeveralOptions = {},
  ): Promise<readonly HeldLease[]> {
    const plan = this.#plan("acquireAll()", resources, options);
    return acquireAll(this.#leases.severalParts, ...plan);
  }

  async acquireAny(resources: readonly string[], options: SeveralOptions = {}): Promise<HeldLease> {
    const plan = this.#plan("acquireAny()", resources, options);
    return acquireAny(this.#leases.severalParts, ...plan);
  }

  async withLeases<T>(
    resources: readonly string[],
    second: SeveralOptions | Work<T>,
    third?: Work<T>,
  ): Promise<T> {
    const [options, work] = typeof second === "function" ? [{}, second] : [second, third];
    if (typeof work !== "function") {
      throw new InvalidArgumentError(
        "withLeases(resources, options?, work) needs a function as its last argument.",
      );
    }
    const plan = this.#plan("withLeases()", resources, options);
    const leases = await acquireAll(this.#leases.severalParts, ...plan);
    try {
      return await runUnderAll(leases, () => work(leases));
    } finally {
      await releaseAll(leases);
    }
  }

  #plan(call: string, resources: readonly string[], options: SeveralOptions): Plan {
    checkOptionNames(call, options, SEVERAL_OPTIONS);
    this.#leases.throwIfClosed();
    checkSignal(options.signal)?.throwIfAborted();
    const names = checkResources(call, resources).map(
      (name) => this.#leases.plan(name, options).resource,
    );
    const held = names.find((name) => this.#leases.findInCallChain(name) !== undefined);
    if (held !== undefined) throw alreadyHeld(held);
    return [names, { ...options, waitMs: this.#leases.planWaitMs(options) }];
  }
}
