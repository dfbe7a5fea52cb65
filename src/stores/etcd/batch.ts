// Sends transactions. Concurrent ones share a message: each keeps its own conditions, nested in a
// transaction without any. etcd evaluates all conditions before it applies anything, so two
// transactions about one resource never share a message, with one exception. A release waits for
// the end of the turn of the event loop, and a grant of the same resource that follows takes it
// along. A process that releases and acquires in a loop therefore sends one message per lease, and
// its own release always comes before its next request.

import type { Clock } from "../../async/clock.ts";
import type { EtcdClient, Reply } from "../../clients/etcd/client.ts";
import { isLeaseMissing } from "../../clients/etcd/errors.ts";
import type { Txn, TxnAnswer } from "../../clients/etcd/kv.ts";
import { txn } from "../../clients/etcd/rpc.ts";
import { isTenureError } from "../../core/errors.ts";
import { Batches } from "../shared/batches.ts";

interface Asked {
  readonly resource: string;
  readonly transaction: Txn;
}

interface Release {
  readonly token: bigint;
  readonly transaction: Txn;
  readonly limitMs: number;
  /** False until it is sent. */
  isSent: boolean;
  settle(reply: Promise<Reply<TxnAnswer>>): void;
  readonly reply: Promise<Reply<TxnAnswer>>;
}

export class Transactions {
  readonly #clock: Clock;
  readonly #batches: Batches<Asked, Reply<TxnAnswer>>;
  /** Releases that are not answered, by resource. */
  readonly #releases = new Map<string, Release>();

  constructor(client: EtcdClient, clock: Clock) {
    this.#clock = clock;
    const send = (transaction: Txn, limitMs: number): Promise<Reply<TxnAnswer>> =>
      client.ask(txn, transaction, { limitMs, foreseen: isLeaseMissing });
    this.#batches = new Batches({
      clock,
      toKey: ({ resource }) => resource,
      one: async ({ transaction }, limitMs, again) => {
        const reply = await send(transaction, limitMs);
        // A copy of a batch that was rejected may still be in flight to another member.
        return again ? { ...reply, doubtful: true } : reply;
      },
      many: async (asked, limitMs) => {
        const reply = await send(nest(asked.map(({ transaction }) => transaction)), limitMs);
        return asked.map((_, index) => pick(reply, index));
      },
      isRejection: (error) => !isTenureError(error, "STORE_UNAVAILABLE"),
    });
  }

  ask(resource: string, transaction: Txn, limitMs: number): Promise<Reply<TxnAnswer>> {
    return this.#batches.ask({ resource, transaction }, limitMs);
  }

  /** Sends the release of a lease at the end of this turn, or with the grant that follows. */
  release(
    { resource, token, limitMs }: { resource: string; token: bigint; limitMs: number },
    transaction: Txn,
  ): Promise<Reply<TxnAnswer>> {
    let settle: Release["settle"] = () => undefined;
    const reply = new Promise<Reply<TxnAnswer>>((resolve) => {
      settle = resolve;
    });
    const release = { token, transaction, limitMs, isSent: false, settle, reply };
    this.#releases.set(resource, release);
    const end = (): void => {
      if (this.#releases.get(resource) === release) this.#releases.delete(resource);
    };
    reply.then(end, end);
    this.#clock.soon(() => {
      if (release.isSent) return;
      release.isSent = true;
      settle(this.ask(resource, transaction, limitMs));
    });
    return reply;
  }

  /** `build` gets the token of the lease that the same message releases. */
  async grant(
    resource: string,
    build: (released: bigint | undefined) => Txn,
    limitMs: number,
  ): Promise<Reply<TxnAnswer>> {
    const release = this.#releases.get(resource);
    if (release === undefined) return this.ask(resource, build(undefined), limitMs);
    if (release.isSent) {
      const endsAt = this.#clock.now() + limitMs;
      await release.reply.catch(() => undefined);
      return this.ask(resource, build(undefined), Math.max(0, endsAt - this.#clock.now()));
    }
    release.isSent = true;
    const both = nest([release.transaction, build(release.token)]);
    const reply = this.ask(resource, both, Math.min(limitMs, release.limitMs));
    release.settle(reply.then((answered) => pick(answered, 0) ?? answered));
    const answered = await reply;
    return pick(answered, 1) ?? answered;
  }
}

function nest(transactions: readonly Txn[]): Txn {
  return { when: [], yes: transactions.map((each) => ({ txn: each })), no: [] };
}

/** The answer to one of the transactions that were nested. */
function pick({ answer, doubtful }: Reply<TxnAnswer>, index: number): Reply<TxnAnswer> | undefined {
  const inner = answer.answers[index]?.txn;
  return inner && { answer: { ...inner, header: answer.header }, doubtful };
}
