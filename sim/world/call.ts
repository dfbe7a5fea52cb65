// A request and its answer over the simulated network. The caller waits no longer than its limit, by its own clock; what it
// sent may arrive long after. Who sends a request again has lost the answer to the first: only the one to the last copy counts.

import { StoreUnavailableError } from "../../src/core/errors.ts";
import type { Network } from "./network.ts";
import type { Program } from "./program.ts";

/** A program that answers, and may refuse to for a while. */
export interface Callee {
  readonly program: Program;
  /** Connections are refused: the caller knows at once that nothing was done. */
  isDown: boolean;
  /** Called when it answers again. */
  onReturn?(): void;
}

export interface Call<T> {
  readonly network: Network;
  readonly from: Program;
  readonly to: Callee;
  readonly what: string;
  readonly limitMs: number;
  /** Runs at the callee, as often as the request arrives. */
  readonly handle: () => Promise<T>;
}

type Reply<T> = { readonly value: T } | { readonly error: unknown };

export function call<T>({ network, from, to, what, limitMs, handle }: Call<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void =>
      reject(new StoreUnavailableError(`no answer to the ${what} in time`, { applied: "unknown" }));
    const limit = from.clock.setTimer(late, limitMs);
    let isAnswered = false;
    let copies = 0;
    const answer = (copy: number, reply: Reply<T>): void =>
      network.send(to.program, from, () => {
        if (copy !== copies) return;
        isAnswered = true;
        limit.cancel();
        if ("value" in reply) resolve(reply.value);
        else reject(reply.error);
      });
    // Of a request that arrives more than once, no copy may be refused when another was handled: "no" must be true.
    let fate: "unknown" | "handled" | "refused" = "unknown";
    network.send(from, to.program, () => {
      // No transport delivers a request again whose answer has come; one that nobody answered can come at any time.
      if (isAnswered) return;
      if (fate === "refused" || (to.isDown && fate === "handled")) return;
      if (to.isDown) {
        fate = "refused";
        const error = new StoreUnavailableError("connection refused", { applied: "no" });
        answer(copies, { error });
        return;
      }
      fate = "handled";
      copies += 1;
      const copy = copies;
      handle().then(
        (value) => answer(copy, { value }),
        (error: unknown) => answer(copy, { error }),
      );
    });
  });
}
