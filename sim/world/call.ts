// A request and its answer over the simulated network. The caller waits for at most `limitMs` by
// its own clock, and the request may arrive long after that. When the network delivers a request
// twice, the caller sees only the answer to the last copy: a real client that retries has lost the
// first.

import { StoreUnavailableError } from "../../src/core/errors.ts";
import type { Network } from "./network.ts";
import type { Program } from "./program.ts";

/** A server program. */
export interface Callee {
  readonly program: Program;
  /** Connections are refused, so the caller learns at once that nothing was done. */
  isDown: boolean;
  /** Called when the server accepts connections again. */
  onReturn?(): void;
}

export interface Call<T> {
  readonly network: Network;
  readonly from: Program;
  readonly to: Callee;
  readonly what: string;
  readonly limitMs: number;
  /** Runs at the callee, once for each copy of the request that arrives. */
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
    // If one copy of a request was handled, no other copy may be refused: `applied: "no"` must be
    // true for the request as a whole.
    let fate: "unknown" | "handled" | "refused" = "unknown";
    network.send(from, to.program, () => {
      // A transport never delivers a request again after its answer has arrived. An unanswered
      // request may arrive at any time.
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
