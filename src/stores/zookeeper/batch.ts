// Concurrent steps of one session share a transaction of the server. The server applies all of them
// or none; if it applies none, each step is sent alone. At 64 steps in flight this saves four
// fifths of the server's work and half of the client's (measured; see docs/stores/zookeeper.md).

import type { Clock } from "../../async/clock.ts";
import type { Call } from "../../clients/zookeeper/call.ts";
import type { Message, MultiAnswer } from "../../clients/zookeeper/messages.ts";
import { Batches } from "../shared/batches.ts";

export interface Step {
  readonly call: Call;
  /**
   * Two steps with the same key never share a transaction. All nodes that a transaction creates
   * have the same czxid, so it may create only one node per resource.
   */
  readonly key: string;
  /** A single part is sent as it is, several as a transaction. */
  readonly parts: readonly [Message, ...Message[]];
}

export class Batch {
  readonly #batches: Batches<Step, MultiAnswer>;

  constructor(clock: Clock) {
    this.#batches = new Batches({
      clock,
      toKey: ({ key }) => key,
      one: async ({ call, parts }) => {
        if (parts.length > 1) return call.askAll(parts);
        const { error } = await call.send(parts[0]);
        return { error, failedAt: -1, parts: [] };
      },
      many: sendTogether,
      // A rejected transaction is an answer. An exception means that the connection was lost.
      isRejection: () => false,
    });
  }

  /** The limit is that of the call. */
  take(step: Step): Promise<MultiAnswer> {
    return this.#batches.ask(step, Number.POSITIVE_INFINITY);
  }
}

async function sendTogether(steps: readonly Step[]): Promise<readonly (MultiAnswer | undefined)[]> {
  const [first, ...others] = steps.filter(({ call }) => !call.isOver);
  // While there is no connection, the limits of some calls may pass. Each step is then sent alone.
  if (first === undefined || !first.call.isConnected) return [];
  const sent = [first, ...others];
  const all = sent.flatMap(({ parts }) => parts);
  const { error, parts } = await first.call.askAll(
    all,
    others.map(({ call }) => call),
  );
  if (error !== 0) return [];
  let at = 0;
  const answers = new Map<Step, MultiAnswer>();
  for (const step of sent) {
    const end = at + step.parts.length;
    answers.set(step, { error, failedAt: -1, parts: parts.slice(at, end) });
    at = end;
  }
  return steps.map((step) => answers.get(step));
}
