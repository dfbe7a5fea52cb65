// Transactions of one moment as one: each keeps its own conditions and branches, nested in a transaction without any, and
// etcd judges all conditions before it carries anything out. They touch different resources, so none can change what
// another one finds. All of them share a revision: tokens are compared within a resource only, where it is still new.

import type { Clock } from "../../async/clock.ts";
import { isLeaseMissing } from "../../clients/etcd/failures.ts";
import type { Txn, TxnAnswer } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import type { Reply } from "../../clients/etcd/race.ts";
import { txn } from "../../clients/etcd/rpc.ts";
import { isTenureError } from "../../core/errors.ts";
import { Batches } from "../shared/batches.ts";

interface Asked {
  readonly resource: string;
  readonly transaction: Txn;
}

/** For transactions whose keys tell the resource, and that no other resource's can touch. */
export class Transactions {
  readonly #batches: Batches<Asked, Reply<TxnAnswer>>;

  constructor(members: Members, clock: Clock) {
    this.#batches = new Batches({
      clock,
      toKey: ({ resource }) => resource,
      one: async ({ transaction }, limitMs, again) => {
        const reply = await members.ask(txn, transaction, { limitMs, foreseen: isLeaseMissing });
        // A copy of the batch that was refused may still be on its way to another member.
        return again ? { ...reply, doubtful: true } : reply;
      },
      many: async (asked, limitMs) => {
        const yes = asked.map(({ transaction }) => ({ txn: transaction }));
        const options = { limitMs, foreseen: isLeaseMissing };
        const { answer, doubtful } = await members.ask(txn, { when: [], yes, no: [] }, options);
        const { header } = answer;
        return asked.map((_, index) => {
          const inner = answer.answers[index]?.txn;
          return inner && { answer: { ...inner, header }, doubtful };
        });
      },
      isRejection: (error) => !isTenureError(error, "STORE_UNAVAILABLE"),
    });
  }

  ask(resource: string, transaction: Txn, limitMs: number): Promise<Reply<TxnAnswer>> {
    return this.#batches.ask({ resource, transaction }, limitMs);
  }
}
