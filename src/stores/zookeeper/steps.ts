// Steps of one moment as one transaction of the server: all of them are carried out, or none; and if none, each goes by
// itself. They belong to different resources. All of them share a transaction number: tokens are compared within a
// resource only, where it is still new.

import type { Clock } from "../../async/clock.ts";
import type { Call } from "../../clients/zookeeper/call.ts";
import {
  type Message,
  type MultiAnswer,
  multi,
  readMulti,
} from "../../clients/zookeeper/messages.ts";
import { Batches } from "../shared/batches.ts";

export interface Step {
  readonly call: Call;
  /** The resource's node: two steps on the same one never share a transaction. */
  readonly parent: string;
  /** One alone is sent as it is, several as a transaction. */
  readonly parts: readonly [Message, ...Message[]];
}

export class Steps {
  readonly #batches: Batches<Step, MultiAnswer>;

  constructor(clock: Clock) {
    this.#batches = new Batches({
      clock,
      toKey: ({ parent }) => parent,
      one: async ({ call, parts }) => {
        const [first, ...others] = parts;
        const reply = await call.send(others.length === 0 ? first : multi(parts));
        if (reply.error !== 0 || others.length === 0) return withoutParts(reply.error);
        return readMulti(reply.body);
      },
      many: (steps) => together(steps),
      // A refusal comes as an answer; what is thrown is a connection that was lost.
      isRejection: () => false,
    });
  }

  /** Each call has its own limit, so none is kept here. */
  take(step: Step): Promise<MultiAnswer> {
    return this.#batches.ask(step, Number.POSITIVE_INFINITY);
  }
}

async function together(steps: readonly Step[]): Promise<readonly (MultiAnswer | undefined)[]> {
  const [first, ...others] = steps.filter(({ call }) => !call.isOver);
  // Where the connection has to be made first, some may be over by then: each looks for itself.
  if (first === undefined || !first.call.isConnected) return [];
  const sent = [first, ...others];
  const all = multi(sent.flatMap(({ parts }) => parts));
  const reply = await first.call.send(
    all,
    others.map(({ call }) => call),
  );
  const { error, parts } = reply.error === 0 ? readMulti(reply.body) : withoutParts(reply.error);
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

function withoutParts(error: number): MultiAnswer {
  return { error, failedAt: -1, parts: [] };
}
