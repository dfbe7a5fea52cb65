// Goal: transactions that travel as one are answered one by one, and none is taken for certain when a batch was refused.
// Method: members that are a function.

import { expect, test } from "vitest";
import type { Txn, TxnAnswer } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import type { Reply } from "../../clients/etcd/race.ts";
import { EtcdStatusError } from "../../clients/etcd/transport.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Transactions } from "./transactions.ts";

const HEADER = { revision: 7n, term: 1n };

function named(name: string): Txn {
  return { when: [], yes: [{ remove: { key: Buffer.from(name) } }], no: [] };
}

function inner(succeeded: boolean): TxnAnswer {
  return { header: { revision: 0n, term: 0n }, succeeded, answers: [] };
}

async function askThree(ask: (transaction: Txn) => Reply<TxnAnswer>): Promise<Reply<TxnAnswer>[]> {
  const clock = new ManualClock();
  const members = { ask: async (_rpc: unknown, txn: Txn) => ask(txn) } as unknown as Members;
  const transactions = new Transactions(members, clock);
  const replies = ["a", "b", "c"].map((name) => transactions.ask(name, named(name), 100));
  await clock.advance(1);
  return Promise.all(replies);
}

const isBatch = ({ yes }: Txn): boolean => yes.some((op) => "txn" in op);

test("each has its own verdict, and all have the revision and the doubt of the whole", async () => {
  const [alone, ...others] = await askThree((transaction) => {
    const answers = [inner(true), inner(false)].map((txn) => ({ kvs: [], txn }));
    return isBatch(transaction)
      ? { answer: { header: HEADER, succeeded: true, answers }, doubtful: true }
      : { answer: { ...inner(true), header: HEADER }, doubtful: false };
  });
  expect(alone?.doubtful).toBe(false);
  expect(others.map(({ answer, doubtful }) => [answer.succeeded, answer.header, doubtful])).toEqual(
    [
      [true, HEADER, true],
      [false, HEADER, true],
    ],
  );
});

test("after a batch that was refused each goes alone, and a copy of it may still come", async () => {
  const replies = await askThree((transaction) => {
    if (isBatch(transaction)) throw new EtcdStatusError(5, "etcdserver: requested lease not found");
    return { answer: { ...inner(true), header: HEADER }, doubtful: false };
  });
  expect(replies.map(({ doubtful }) => doubtful)).toEqual([false, true, true]);
});
