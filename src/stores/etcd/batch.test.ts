// Goal: transactions that share a message are answered separately, none of a rejected batch is
// taken for certain, and a grant comes after the release of the same resource. Method: a client
// that is a function.
import { expect, test } from "vitest";
import type { EtcdClient, Reply } from "../../clients/etcd/client.ts";
import type { Txn, TxnAnswer } from "../../clients/etcd/kv.ts";
import { EtcdStatusError } from "../../clients/etcd/transport.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Transactions } from "./batch.ts";

const HEADER = { revision: 7n, term: 1n };

function named(name: string): Txn {
  return { when: [], yes: [{ remove: { key: Buffer.from(name) } }], no: [] };
}

function inner(succeeded: boolean): TxnAnswer {
  return { header: { revision: 0n, term: 0n }, succeeded, answers: [] };
}

const isBatch = ({ yes }: Txn): boolean => yes.some((op) => "txn" in op);

function nested(...verdicts: readonly boolean[]): Reply<TxnAnswer> {
  const answers = verdicts.map((verdict) => ({ kvs: [], txn: inner(verdict) }));
  return { answer: { header: HEADER, succeeded: true, answers }, doubtful: true };
}

const ALONE = { answer: { ...inner(true), header: HEADER }, doubtful: false };

function world(ask: (transaction: Txn) => Reply<TxnAnswer> | Promise<Reply<TxnAnswer>>): {
  clock: ManualClock;
  transactions: Transactions;
} {
  const clock = new ManualClock();
  const client = { ask: async (_rpc: unknown, txn: Txn) => ask(txn) } as unknown as EtcdClient;
  return { clock, transactions: new Transactions(client, clock) };
}

async function askThree(ask: (transaction: Txn) => Reply<TxnAnswer>): Promise<Reply<TxnAnswer>[]> {
  const { clock, transactions } = world(ask);
  const replies = ["a", "b", "c"].map((name) => transactions.ask(name, named(name), 100));
  await clock.advance(1);
  return Promise.all(replies);
}

test("each transaction has its own verdict, and the revision and the doubt of the message", async () => {
  const [alone, ...others] = await askThree((transaction) =>
    isBatch(transaction) ? nested(true, false) : ALONE,
  );
  expect(alone?.doubtful).toBe(false);
  expect(others.map(({ answer, doubtful }) => [answer.succeeded, answer.header, doubtful])).toEqual(
    [
      [true, HEADER, true],
      [false, HEADER, true],
    ],
  );
});

test("after a rejected batch each transaction is sent alone, and a copy may still arrive", async () => {
  const replies = await askThree((transaction) => {
    if (isBatch(transaction)) throw new EtcdStatusError(5, "etcdserver: requested lease not found");
    return ALONE;
  });
  expect(replies.map(({ doubtful }) => doubtful)).toEqual([false, true, true]);
});

const release = { resource: "r", token: 5n, limitMs: 100 };

test("a grant takes a release of the same resource along, in the same message and after it", async () => {
  const sent: Txn[] = [];
  const { clock, transactions } = world((transaction) => {
    sent.push(transaction);
    return nested(true, false);
  });
  const released = transactions.release(release, named("old"));
  const tokens: (bigint | undefined)[] = [];
  const granted = transactions.grant(
    "r",
    (token) => {
      tokens.push(token);
      return named("new");
    },
    100,
  );
  await clock.advance(1);
  expect((await released).answer.succeeded).toBe(true);
  expect((await granted).answer.succeeded).toBe(false);
  expect(tokens).toEqual([5n]);
  expect(sent.map(({ yes }) => yes)).toEqual([[{ txn: named("old") }, { txn: named("new") }]]);
});

test("a grant is not sent before a release of the same resource in flight is answered", async () => {
  const sent: Txn[] = [];
  let answer: (reply: Reply<TxnAnswer>) => void = () => undefined;
  const { clock, transactions } = world((transaction) => {
    sent.push(transaction);
    if (sent.length > 1) return ALONE;
    return new Promise((resolve) => {
      answer = resolve;
    });
  });
  const released = transactions.release(release, named("old"));
  await clock.advance(1);
  const granted = transactions.grant("r", () => named("new"), 100);
  await clock.advance(1);
  expect(sent).toEqual([named("old")]);
  answer(ALONE);
  await released;
  await clock.advance(1);
  await granted;
  expect(sent).toEqual([named("old"), named("new")]);
});

test("a release that no grant follows is sent at the end of the turn", async () => {
  const sent: Txn[] = [];
  const { clock, transactions } = world((transaction) => {
    sent.push(transaction);
    return ALONE;
  });
  const released = transactions.release(release, named("old"));
  expect(sent).toEqual([]);
  await clock.advance(1);
  expect(await released).toBe(ALONE);
  expect(sent).toEqual([named("old")]);
});
